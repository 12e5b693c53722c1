package llama

import (
	"cmp"
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
	if err == nil {
		g.report.PrefillTokens, g.report.Prefill, err = g.drain(ctx, g.share)
	}
	for i := range g.runs {
		if run := &g.runs[i]; err == nil && run.seq != nil {
			err = g.next(run, run.logits)
		}
	}
	if err == nil {
		g.report.DecodeTokens, g.report.Decode, err = g.drain(ctx, g.next)
	}
	for i := range g.runs {
		err = cmp.Or(err, g.end(&g.runs[i]))
	}
	return g.report, err
}

// generation is the state of a Generate.
type generation[B backend.Buffer] struct {
	*Runner[B]
	runs      []run[B]
	maxTokens int
	emit      func(seq int, token uint32) error
	report    Report
}

// run is one sequence of a generation.
type run[B backend.Buffer] struct {
	number  int
	seq     *kvcache.Sequence[B] // nil before it is opened or forked, and after its end
	source  *run[B]              // the first run with the same prompt, which this one forks
	logits  []float32            // behind the prompt
	pending []uint32             // tokens that are not in the cache yet
	sampler *Sampler
	emitted int
}

// begin opens a sequence for every prompt that differs from those before it.
func (g *generation[B]) begin(ctx context.Context, prompts [][]uint32, s Sampling) (err error) {
	for i, prompt := range prompts {
		if len(prompt) == 0 {
			return backend.ErrShape{Op: "generate", What: fmt.Sprintf("prompt %d has no tokens, not even BOS", i)}
		}
		run := &g.runs[i]
		run.number = i
		if run.sampler, err = NewSampler(s, uint64(i)); err != nil {
			return err
		}
		run.source = &g.runs[slices.IndexFunc(prompts, func(p []uint32) bool { return slices.Equal(p, prompt) })]
		if run.source != run || g.maxTokens <= 0 {
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

// drain runs steps until no run has pending tokens, and calls use with the logits
// behind the last one of a run. It returns how many tokens it computed.
func (g *generation[B]) drain(ctx context.Context, use func(*run[B], []float32) error) (tokens int, took time.Duration, err error) {
	start := time.Now()
	for n := -1; n != 0 && err == nil; {
		n, err = g.advance(ctx, use)
		tokens += n
	}
	return tokens, time.Since(start), err
}

// advance runs one step and returns how many tokens it computed.
func (g *generation[B]) advance(ctx context.Context, use func(*run[B], []float32) error) (n int, err error) {
	var work []Work[B]
	var in []*run[B]
	for i := range g.runs {
		run := &g.runs[i]
		if k := min(len(run.pending), g.rows-n); k > 0 {
			work, in, n = append(work, Work[B]{run.seq, run.pending[:k]}), append(in, run), n+k
			run.pending = run.pending[k:]
		}
	}
	if err := ctx.Err(); err != nil || n == 0 {
		return 0, err
	}
	logits, err := g.Forward(work, false)
	if err != nil {
		return 0, err
	}
	for i, run := range in {
		if len(run.pending) == 0 && err == nil {
			err = use(run, logits.Data[i*logits.Stride:][:logits.Cols])
		}
	}
	return n, err
}

// share forks a run behind its prompt for every other run that has the same one.
// No token is chosen yet: no sequence may end while others still need its cache.
func (g *generation[B]) share(source *run[B], logits []float32) (err error) {
	source.logits = slices.Clone(logits)
	for i := range g.runs {
		if run := &g.runs[i]; run.source == source && run != source {
			if run.seq, err = source.seq.Fork(); err != nil {
				return err
			}
			run.logits = source.logits
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
	run.pending = []uint32{token}
	return nil
}

// end releases a run's sequence, if it has one.
func (g *generation[B]) end(run *run[B]) error {
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
