package runner

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
	PrefillTokens, DecodeTokens int // tokens computed, without wrong guesses
	Guesses, Right              int // tokens guessed, and how many of them followed
	Prefill, Decode             time.Duration
	Load                        time.Duration // of waiting for tiers, which is no part of Prefill
	// Matches says how much of each prompt was found: in the cache or, for one that is equal to another before it, all.
	Matches []kvcache.Match
	Cache   kvcache.Stats // at the moment when most of it was in use
}

// Add adds what a later Generate did.
func (r *Report) Add(o Report) {
	r.PrefillTokens += o.PrefillTokens
	r.DecodeTokens += o.DecodeTokens
	r.Guesses += o.Guesses
	r.Right += o.Right
	r.Prefill += o.Prefill
	r.Decode += o.Decode
	r.Load += o.Load
	r.Matches = append(r.Matches, o.Matches...)
	if o.Cache.BytesHeld > r.Cache.BytesHeld {
		r.Cache = o.Cache
	}
}

// Generate continues the prompts, all in one batch, until each has reached the end of its text, maxTokens new tokens, or the
// capacity of the cache. It calls emit with the number of the prompt and every new token but the one that ends a text. Equal
// prompts are computed once, and their sequences share the cache; where prefixes are reused, so is what prompts begin with in
// common, and what was computed by an earlier Generate, or is in tiers: those are waited for as long as the pool
// expects them to be faster than computing.
//
// With Options.Guesses the likeliest tokens are chosen, and each step computes guesses of what follows, too: those that are
// right cost no step of their own. The text is the same.
//
// It stops at the first error, also of emit, and when ctx is done. Whatever happens, its sequences are released.
func (r *Runner[B]) Generate(ctx context.Context, prompts []Prompt, maxTokens int, s Sampling, emit func(seq int, token uint32) error) (Report, error) {
	g := generation[B]{Runner: r, maxTokens: maxTokens, emit: emit}
	g.report.Matches = make([]kvcache.Match, len(prompts))
	err := g.begin(prompts, s)
	if err == nil {
		g.report.PrefillTokens, g.report.Prefill, err = g.drain(ctx, g.share)
		g.report.Prefill -= g.report.Load
	}
	for _, run := range g.runs {
		if err == nil && run.seq != nil {
			err = g.next(run, run.logits)
		}
	}
	if err == nil {
		g.report.DecodeTokens, g.report.Decode, err = g.drain(ctx, g.next)
	}
	for _, run := range g.runs {
		err = cmp.Or(err, g.end(run))
	}
	return g.report, err
}

// generation is the state of a Generate.
type generation[B backend.Buffer] struct {
	*Runner[B]
	runs      []*run[B]
	maxTokens int
	emit      func(seq int, token uint32) error
	report    Report
}

// run is one sequence of a generation.
type run[B backend.Buffer] struct {
	number  int
	prompt  Prompt
	waiting bool                 // to be opened
	seq     *kvcache.Sequence[B] // nil before it is opened or forked, and after its end
	source  *run[B]              // the first run with the same prompt, which this one forks
	logits  []float32            // behind the prompt, once that is computed
	pending []uint32             // tokens that are not in the cache yet
	sampler *Sampler
	chosen  []uint32 // tokens of the step that are to be emitted
	text    []uint32 // the prompt, and what was emitted
}

// begin makes a run of every prompt. Those that differ from all before them wait for a sequence.
func (g *generation[B]) begin(prompts []Prompt, s Sampling) (err error) {
	if g.guesses > 0 && s.Temperature > 0 {
		return kvcache.ErrConfig{Name: "Temperature", Value: fmt.Sprint(s.Temperature), Why: "with Guesses the likeliest token is chosen: accepts 0"}
	}
	for i, prompt := range prompts {
		n := len(prompt.Tokens)
		if n == 0 {
			return misused("generate", "prompt %d has no tokens, not even BOS", i)
		}
		run := &run[B]{number: i, prompt: prompt, text: slices.Clip(prompt.Tokens)}
		g.runs = append(g.runs, run)
		// The turns of a conversation differ in length: they draw differently, too.
		if run.sampler, err = NewSampler(s, uint64(i)<<32|uint64(n)); err != nil {
			return err
		}
		run.source = g.runs[slices.IndexFunc(prompts, prompt.equal)]
		run.waiting = run.source == run && g.maxTokens > 0
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
	if err := cmp.Or(ctx.Err(), g.admit(ctx)); err != nil {
		return 0, err
	}
	var work []Work[B]
	var in []*run[B]
	trees := false // all of a step, or none
	for _, run := range g.runs {
		if k := min(len(run.pending), g.rows-n); k > 0 {
			k = max(run.seq.Piece(k), 1) // a step ends where a state is kept; a sequence that cannot go on says why
			w := Work[B]{Seq: run.seq, Tokens: run.pending[:k]}
			run.pending = run.pending[k:]
			if trees = g.guesses > 0 && run.emitted() > 0; trees {
				g.guess(run, &w)
			}
			work, in, n = append(work, w), append(in, run), n+len(w.Tokens)
		}
	}
	if n == 0 {
		return 0, nil
	}
	begin := time.Now()
	logits, err := g.Forward(work, trees)
	if trees && errors.Is(err, kvcache.ErrOutOfBlocks{}) {
		for i := range work { // there may be room for what is certain
			work[i] = Work[B]{Seq: work[i].Seq, Tokens: work[i].Tokens[:1]}
		}
		logits, err = g.Forward(work, false)
	}
	if err != nil {
		return 0, err
	}
	g.prefilled(in, work, n, time.Since(begin))
	n = 0
	for i, run := range in {
		tree := work[i].Right != nil
		if n += len(work[i].Tokens); tree {
			n += len(run.chosen) - len(work[i].Tokens) // without wrong guesses
		}
		switch {
		case err != nil || len(run.pending) > 0:
		case tree:
			err = g.take(run, run.chosen...)
		default:
			err = use(run, logits.Row(i))
		}
	}
	return n, err
}

// share forks a run behind its prompt for every other run that has the same one.
// No token is chosen yet: no sequence may end while others still need its cache.
func (g *generation[B]) share(source *run[B], logits []float32) (err error) {
	source.logits = slices.Clone(logits)
	for _, run := range g.runs {
		if run.source == source && run != source {
			if run.seq, err = source.seq.Fork(); err != nil {
				return err
			}
			run.logits = source.logits
			g.report.Matches[run.number] = kvcache.Match{Cached: len(run.prompt.Tokens)}
		}
	}
	return nil
}

// next samples a token of a run and takes it.
func (g *generation[B]) next(run *run[B], logits []float32) error {
	return g.take(run, run.sampler.Sample(logits))
}

// take emits the tokens that were chosen for a run and puts the last one in line for the next step, or ends the run.
func (g *generation[B]) take(run *run[B], tokens ...uint32) error {
	for _, token := range tokens {
		if g.model.Stops(token) {
			return g.end(run)
		}
		if err := g.emit(run.number, token); err != nil {
			return err
		}
		run.text = append(run.text, token)
	}
	if run.emitted() == g.maxTokens || run.seq.Len() == g.Pool().Config().Memory.Capacity {
		return g.end(run)
	}
	run.pending = run.text[len(run.text)-1:]
	return nil
}

// emitted is how many tokens a run has behind its prompt.
func (run *run[B]) emitted() int { return len(run.text) - len(run.prompt.Tokens) }

// end releases a run's sequence, if it has one.
func (g *generation[B]) end(run *run[B]) error {
	if run.seq == nil {
		return nil
	}
	stats, err := g.Pool().Stats()
	if err == nil && stats.BytesHeld > g.report.Cache.BytesHeld {
		g.report.Cache = stats
	}
	seq := run.seq
	run.seq = nil
	return errors.Join(err, seq.Release())
}
