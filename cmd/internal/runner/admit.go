package runner

import (
	"context"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// admit opens a sequence for every run that waits for no earlier one.
func (g *generation[B]) admit(ctx context.Context) {
	for i, run := range g.runs {
		if !run.waiting || g.later(run) {
			continue
		}
		seq, match, err := g.Pool().Open(run.prompt.Tokens, run.prompt.options())
		check(err)
		run.seq, run.waiting = seq, false
		if match.Loading > 0 {
			begin, why := time.Now(), match.MissReason
			match, err = seq.Wait(ctx)
			match.MissReason = why
			g.report.Load += time.Since(begin)
		}
		g.report.Matches[i] = match
		check(err)
		run.pending = run.prompt.Tokens[match.Cached:]
	}
}

// later reports whether an earlier run is going to compute blocks that this one can use and
// neither the cache nor its tiers have yet: what prompts begin with in common is computed once.
func (g *generation[B]) later(r *run[B]) bool {
	cfg := g.Pool().Config()
	found, err := g.Pool().Match(r.prompt.Tokens, r.prompt.options())
	if err != nil || cfg.Memory.Prefix == prefix.Off {
		return false // Open says what is wrong
	}
	return slices.ContainsFunc(g.runs[:r.number], func(earlier *run[B]) bool {
		common := min(r.prompt.common(earlier.prompt), len(r.prompt.Tokens)-1) // the last token is always computed
		return earlier.source == earlier && earlier.logits == nil && common-common%cfg.EntryTokens() > found.Cached+found.Loading
	})
}
