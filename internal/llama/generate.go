package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Report is what a Generate did.
type Report struct {
	PrefillTokens, DecodeTokens int // tokens computed, those of shared prompts once
	Prefill, Decode             time.Duration
	Cache                       kvcache.Stats // at the moment when most blocks were in use
}

// Generate continues the prompts, all in one batch, until each has reached the
// end of its text, maxTokens new tokens, or the capacity of the cache. It calls
// emit with the number of the prompt and every new token but the one that ends a
// text. Equal prompts are computed once, and their sequences share the cache.
//
// It stops at the first error, also of emit, and when ctx is done. Whatever
// happens, its sequences are released.
func (r *Runner[B]) Generate(ctx context.Context, prompts [][]uint32, maxTokens int, s Sampling, emit func(seq int, token uint32) error) (Report, error) {
	g := generation[B]{Runner: r, runs: make([]run[B], len(prompts)), maxTokens: maxTokens, emit: emit}
	err := g.begin(ctx, prompts, s)
	for prefill := true; err == nil; {
		start := time.Now()
		var n int
		if n, err = g.advance(ctx, prefill); n == 0 && err == nil {
			if !prefill {
				break
			}
			prefill = false
			continue
		}
		if prefill {
			g.report.PrefillTokens += n
			g.report.Prefill += time.Since(start)
		} else {
			g.report.DecodeTokens += n
			g.report.Decode += time.Since(start)
		}
	}
	for i := range g.runs {
		if e := g.end(&g.runs[i]); err == nil {
			err = e
		}
	}
	return g.report, err
}

// generation is the state of a Generate.
type generation[B backend.Buffer] struct {
	*Runner[B]
	runs      []run[B]
	maxTokens int
	emit      func(seq int, token uint32) error
	work      []Work[B]
	report    Report
}

// run is one sequence of a generation.
type run[B backend.Buffer] struct {
	number  int
	seq     *kvcache.Sequence[B] // nil before it is opened or forked, and after its end
	source  int                  // the first run with the same prompt, which this one forks
	pending []uint32             // tokens that are not in the cache yet
	sampler *Sampler
	last    [1]uint32
	emitted int
}

// begin opens a sequence for every prompt that differs from those before it.
func (g *generation[B]) begin(ctx context.Context, prompts [][]uint32, s Sampling) error {
	for i, prompt := range prompts {
		if len(prompt) == 0 {
			return backend.ErrShape{Op: "generate", What: fmt.Sprintf("prompt %d has no tokens, not even BOS", i)}
		}
		run := &g.runs[i]
		run.number = i
		var err error
		if run.sampler, err = NewSampler(s, uint64(i)); err != nil {
			return err
		}
		run.source = slices.IndexFunc(prompts, func(p []uint32) bool { return slices.Equal(p, prompt) })
		if run.source != i || g.maxTokens <= 0 {
			continue
		}
		var match kvcache.Match
		if run.seq, match, err = g.pool.Open(ctx, prompt); err != nil {
			return err
		}
		run.pending = prompt[len(prompt)-match.Recompute:]
	}
	return nil
}

// advance runs one step for the runs that are still in their prompt, or for those
// that are behind it, and returns how many tokens it computed.
func (g *generation[B]) advance(ctx context.Context, prefill bool) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	g.work = g.work[:0]
	var in []*run[B]
	for i := range g.runs {
		run := &g.runs[i]
		k := min(len(run.pending), g.rows-n)
		if k > 0 && prefill == (run.emitted == 0) {
			g.work, in, n = append(g.work, Work[B]{run.seq, run.pending[:k]}), append(in, run), n+k
		}
	}
	if n == 0 {
		return 0, nil
	}
	logits, err := g.Forward(g.work, false)
	if err != nil {
		return n, err
	}
	for i, run := range in {
		if run.pending = run.pending[len(g.work[i].Tokens):]; len(run.pending) > 0 {
			continue
		}
		row := logits.Data[i*logits.Stride:][:logits.Cols]
		if prefill {
			err = g.first(run, row)
		} else {
			err = g.next(run, row)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// first samples the first token behind a prompt, for every run that has it. The
// forks come before: no sequence may end while others still need its cache.
func (g *generation[B]) first(source *run[B], logits []float32) error {
	var err error
	for i := range g.runs {
		if run := &g.runs[i]; run != source && run.source == source.number {
			if run.seq, err = source.seq.Fork(); err != nil {
				return err
			}
		}
	}
	for i := range g.runs {
		if run := &g.runs[i]; run.source == source.number {
			if err := g.next(run, logits); err != nil {
				return err
			}
		}
	}
	return nil
}

// next samples a token of a run and puts it in line for the next step, or ends the run.
func (g *generation[B]) next(run *run[B], logits []float32) error {
	token := run.sampler.Sample(logits)
	if g.model.Stops(token) {
		return g.end(run)
	}
	if err := g.emit(run.number, token); err != nil {
		return err
	}
	if run.emitted++; run.emitted == g.maxTokens || run.seq.Len() == g.pool.Config().Capacity {
		return g.end(run)
	}
	run.last[0] = token
	run.pending = run.last[:]
	return nil
}

// end releases a run's sequence, if it has one.
func (g *generation[B]) end(run *run[B]) error {
	run.pending = nil
	if run.seq == nil {
		return nil
	}
	stats, err := g.pool.Stats()
	if err == nil && stats.Held > g.report.Cache.Held {
		g.report.Cache = stats
	}
	seq := run.seq
	run.seq = nil
	return errors.Join(err, seq.Release())
}
