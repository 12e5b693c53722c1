package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/spf13/cobra"
)

// report is what a generation cost, as --json prints it. Blocks and bytes are of
// the moment when most blocks were in use.
type report struct {
	Model             string  `json:"model"`
	Prompts           int     `json:"prompts"`
	Turns             int     `json:"turns"` // after each prompt's first answer
	Backend           string  `json:"backend"`
	Device            string  `json:"device"`
	Threads           int     `json:"threads"`
	Layout            string  `json:"layout"`
	BlockTokens       int     `json:"block_tokens"` // contiguous: the capacity of a sequence
	KType             string  `json:"k_type"`
	VType             string  `json:"v_type,omitempty"`          // not of latents, whose one plane K is
	ResidualTokens    int     `json:"residual_tokens,omitempty"` // at least, that are not quantized
	Hadamard          bool    `json:"hadamard,omitempty"`
	SkipLayers        []int   `json:"skip_layers,omitempty"`
	PrefixReuse       string  `json:"prefix_reuse"`  // the policy, or off
	PromptTokens      int     `json:"prompt_tokens"` // of all prompts and turns, prefilled or reused
	ReusedTokens      int     `json:"reused_tokens"`
	PrefillTokens     int     `json:"prefill_tokens"`
	PrefillSeconds    float64 `json:"prefill_seconds"`
	PrefillPerSecond  float64 `json:"prefill_tokens_per_second"`
	DecodeTokens      int     `json:"decode_tokens"`
	DecodeSeconds     float64 `json:"decode_seconds"`
	DecodePerSecond   float64 `json:"decode_tokens_per_second"`
	Guesses           int     `json:"guesses,omitempty"` // tokens, beside those of the text
	RightGuesses      int     `json:"right_guesses,omitempty"`
	BlocksUsed        int     `json:"blocks_used"`
	BlocksTotal       int     `json:"blocks_total"`
	BytesUsed         int64   `json:"bytes_used"`
	BytesTotal        int64   `json:"bytes_total"`
	BlocksSavedShared int     `json:"blocks_saved_by_sharing"`
	*tiersReport

	ended string // why texts did; "": they did not
}

func newReport(f generateFlags, device backend.Info, cfg kvcache.Config, r runner.Report, end kvcache.Stats) (report, error) {
	cfg.Model.RoPE = nil // its table is no part of the cache that doctor counts
	total, err := cfg.Bytes()
	block := cfg.Memory.BlockSize
	if cfg.Memory.Layout == kvcache.Contiguous {
		block = cfg.Memory.Capacity
	}
	reused := 0
	for _, m := range r.Matches {
		reused += m.Cached
	}
	s, values := r.Cache, ""
	if !cfg.Model.Latent {
		values = cfg.Storage.V.String()
	}
	return report{
		Model: f.model.name(), Prompts: len(f.prompts), Turns: len(f.turns), Backend: device.Name, Device: device.Device, Threads: cmp.Or(f.device.threads, runtime.GOMAXPROCS(0)),
		Layout: cfg.Memory.Layout.String(), BlockTokens: block, KType: cfg.Storage.K.String(), VType: values,
		ResidualTokens: cfg.Storage.Residual, Hadamard: cfg.Storage.Hadamard, SkipLayers: cfg.Storage.SkipLayers,
		PrefixReuse: cfg.Memory.Prefix.String(), PromptTokens: r.PrefillTokens + reused, ReusedTokens: reused,
		PrefillTokens: r.PrefillTokens, PrefillSeconds: r.Prefill.Seconds(), PrefillPerSecond: perSecond(r.PrefillTokens, r.Prefill),
		DecodeTokens: r.DecodeTokens, DecodeSeconds: r.Decode.Seconds(), DecodePerSecond: perSecond(r.DecodeTokens, r.Decode),
		Guesses: r.Guesses, RightGuesses: r.Right,
		BlocksUsed: s.Held, BlocksTotal: s.Blocks,
		BytesUsed: s.BytesHeld, BytesTotal: total, BlocksSavedShared: max(s.Logical-s.Held, 0),
		tiersReport: newTiersReport(r, end),
	}, err
}

// show prints the report: as a line of the output, or for people beside it.
func (r report) show(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]report{"report": r})
	}
	return r.write(cmd.ErrOrStderr())
}

// write prints the report for people.
func (r report) write(out io.Writer) error {
	var w strings.Builder
	fmt.Fprintf(&w, "\ncache    %s, blocks of %s, K %s%s, on %s\n", r.Layout, count(r.BlockTokens, "token"), r.KType, r.besideKeys(), r.Backend)
	for _, phase := range []struct {
		name          string
		tokens        int
		seconds, rate float64
	}{
		{"prefill", r.PrefillTokens, r.PrefillSeconds, r.PrefillPerSecond},
		{"decode", r.DecodeTokens, r.DecodeSeconds, r.DecodePerSecond},
	} {
		if phase.tokens > 0 {
			fmt.Fprintf(&w, "%-8s %s in %s, %.0f tokens/s\n", phase.name, count(phase.tokens, "token"), seconds(phase.seconds), phase.rate)
		}
	}
	if r.ended != "" {
		fmt.Fprintf(&w, "ended    %s\n", r.ended)
	}
	if r.Guesses > 0 {
		fmt.Fprintf(&w, "guesses  %d of %d right\n", r.RightGuesses, r.Guesses)
	}
	if t := r.tiersReport; t != nil {
		fmt.Fprintf(&w, "reused   %d of %s%s\n", r.ReusedTokens, count(r.PromptTokens, "prompt token"), t.from())
		t.write(&w)
	} else if r.Prompts > 1 || r.Turns > 0 {
		fmt.Fprintf(&w, "reused   %d of %s%s\n", r.ReusedTokens, count(r.PromptTokens, "prompt token"), r.noReuse())
	}
	if r.Layout == kvcache.Contiguous.String() { // a block holds a whole sequence
		fmt.Fprintf(&w, "used     %d of %s, %s\n", r.BlocksUsed, count(r.BlocksTotal, "sequence"), r.sharing())
	} else {
		fmt.Fprintf(&w, "blocks   %d of %d used, %s\n", r.BlocksUsed, r.BlocksTotal, r.sharing())
	}
	fmt.Fprintf(&w, "memory   %s of %s used\n", byteSize(r.BytesUsed), byteSize(r.BytesTotal))
	_, err := io.WriteString(out, w.String())
	return err
}

// besideKeys says how values are stored, what of quantized keys and values is not, and what was done to the keys.
func (r report) besideKeys() string {
	var w strings.Builder
	if r.VType != "" {
		fmt.Fprintf(&w, ", V %s", r.VType)
	}
	if r.Hadamard {
		w.WriteString(", keys turned by Hadamard")
	}
	if r.ResidualTokens > 0 {
		fmt.Fprintf(&w, ", at least the last %s not quantized", count(r.ResidualTokens, "token"))
	}
	if len(r.SkipLayers) > 0 {
		fmt.Fprintf(&w, ", layers %v not quantized", r.SkipLayers)
	}
	return w.String()
}

// noReuse says what keeps prompts that begin alike from having that in common.
func (r report) noReuse() string {
	switch {
	case r.ReusedTokens > 0:
		return ""
	case r.Layout == kvcache.Contiguous.String():
		return " (--layout paged reuses what prompts begin with in common)"
	case r.PrefixReuse == prefix.Off.String():
		return " (prefix reuse is off)"
	}
	return ""
}

// sharing is what sequences saved by having blocks in common. In the contiguous layout
// equal prompts share only until they differ, and then each has a block of its own.
func (r report) sharing() string {
	switch {
	case r.BlocksSavedShared > 0:
		return fmt.Sprintf("%d more saved by sharing", r.BlocksSavedShared)
	case r.ReusedTokens > 0 && r.Layout == kvcache.Contiguous.String():
		return "none shared (equal prompts share blocks in the paged layout)"
	}
	return "none shared"
}
