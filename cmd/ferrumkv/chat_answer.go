package main

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
)

// chatAnswer is an answer and what it cost, as --json prints it.
type chatAnswer struct {
	User            string  `json:"user"`
	Text            string  `json:"text"`               // what the model says
	Thinking        string  `json:"thinking,omitempty"` // what it thought before
	PromptTokens    int     `json:"prompt_tokens"`      // the whole conversation's
	ReusedTokens    int     `json:"reused_tokens"`      // that were in the cache
	ComputedTokens  int     `json:"computed_tokens"`    // that were not
	Tokens          int     `json:"tokens"`             // of the answer
	PrefillSeconds  float64 `json:"prefill_seconds"`
	DecodePerSecond float64 `json:"decode_tokens_per_second"`
	Stop            string  `json:"stop"`            // end (of the turn), stop (string), length (max tokens), capacity (of the cache), interrupted
	Tiers           []int   `json:"tiers,omitempty"` // of ReusedTokens, those that came from each tier
}

// measure takes what a generation did.
func (a *chatAnswer) measure(r runner.Report) {
	if len(r.Matches) > 0 {
		a.ReusedTokens, a.Tiers = r.Matches[0].Cached, r.Matches[0].Tiers
	}
	a.ComputedTokens, a.PrefillSeconds, a.DecodePerSecond = a.PromptTokens-a.ReusedTokens, r.Prefill.Seconds(), perSecond(r.DecodeTokens, r.Decode)
}

// show ends an answer, and says what it cost.
func (d *dialogue) show(a *chatAnswer) error {
	if d.json {
		return writeJSON(d.out, a)
	}
	var w strings.Builder
	fmt.Fprintf(&w, "computed %d of %s; %d in the cache", a.ComputedTokens, count(a.PromptTokens, "token"), a.ReusedTokens)
	tiers := d.runner.Pool().Tiers()
	for i, n := range a.Tiers {
		fmt.Fprintf(&w, ", %d of them from %s", n, tiers[i].Name)
	}
	if a.DecodePerSecond > 0 {
		fmt.Fprintf(&w, "; %.1f tokens/s", a.DecodePerSecond)
	}
	fmt.Fprintf(&w, "; %s", d.words(a.Stop, "end of turn"))
	_, err := fmt.Fprintln(d.out)
	d.note("%s", w.String())
	return err
}
