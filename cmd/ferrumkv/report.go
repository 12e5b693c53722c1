package main

import (
	"fmt"
	"io"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/llama"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// report is what a generation cost, as --json prints it. Blocks and bytes are of
// the moment when most blocks were in use.
type report struct {
	Model             string  `json:"model"`
	Backend           string  `json:"backend"`
	Device            string  `json:"device"`
	Threads           int     `json:"threads"`
	Layout            string  `json:"layout"`
	BlockTokens       int     `json:"block_tokens"` // contiguous: the capacity of a sequence
	KType             string  `json:"k_type"`
	VType             string  `json:"v_type"`
	PrefillTokens     int     `json:"prefill_tokens"`
	PrefillSeconds    float64 `json:"prefill_seconds"`
	PrefillPerSecond  float64 `json:"prefill_tokens_per_second"`
	DecodeTokens      int     `json:"decode_tokens"`
	DecodeSeconds     float64 `json:"decode_seconds"`
	DecodePerSecond   float64 `json:"decode_tokens_per_second"`
	BlocksUsed        int     `json:"blocks_used"`
	BlocksTotal       int     `json:"blocks_total"`
	BytesUsed         int64   `json:"bytes_used"`
	BytesTotal        int64   `json:"bytes_total"`
	BlocksSavedShared int     `json:"blocks_saved_by_sharing"`
}

func newReport(f generateFlags, device backend.Info, cfg kvcache.Config, r llama.Report) report {
	model := f.model
	if model == "" {
		model = "embedded"
	}
	block := cfg.BlockSize
	if cfg.Layout == kvcache.Contiguous {
		block = cfg.Capacity
	}
	s := r.Cache
	return report{
		Model: model, Backend: device.Name, Device: device.Device, Threads: device.Units,
		Layout: cfg.Layout.String(), BlockTokens: block, KType: cfg.K.String(), VType: cfg.V.String(),
		PrefillTokens: r.PrefillTokens, PrefillSeconds: r.Prefill.Seconds(), PrefillPerSecond: perSecond(r.PrefillTokens, r.Prefill),
		DecodeTokens: r.DecodeTokens, DecodeSeconds: r.Decode.Seconds(), DecodePerSecond: perSecond(r.DecodeTokens, r.Decode),
		BlocksUsed: s.Held, BlocksTotal: s.Blocks,
		BytesUsed: int64(s.Held) * s.BytesPerBlock, BytesTotal: int64(s.Blocks) * s.BytesPerBlock,
		BlocksSavedShared: max(s.Logical-s.Held, 0),
	}
}

// write prints the report for people.
func (r report) write(w io.Writer) error {
	shared := "none shared"
	if r.BlocksSavedShared > 0 {
		shared = fmt.Sprintf("%d more saved by sharing", r.BlocksSavedShared)
	}
	_, err := fmt.Fprintf(w, `
cache    %s, blocks of %d tokens, K %s, V %s, on %s
prefill  %d tokens in %s, %.0f tokens/s
decode   %d tokens in %s, %.0f tokens/s
blocks   %d of %d used, %s
memory   %s of %s used
`,
		r.Layout, r.BlockTokens, r.KType, r.VType, r.Backend,
		r.PrefillTokens, seconds(r.PrefillSeconds), r.PrefillPerSecond,
		r.DecodeTokens, seconds(r.DecodeSeconds), r.DecodePerSecond,
		r.BlocksUsed, r.BlocksTotal, shared,
		byteSize(r.BytesUsed), byteSize(r.BytesTotal))
	return err
}
