package runner

import (
	"cmp"
	"context"
	"errors"
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

// ErrEnough is what emit returns for the token that is a text's last.
var ErrEnough = errors.New("runner: the text ends here")

// Generate continues the prompts, all in one batch, until each has reached the end of its text, maxTokens new tokens, what emit says is
// enough, or the capacity of the cache. It calls emit with the number of the prompt and every new token but the one that ends a text. Equal
// prompts are computed once, and their sequences share the cache; where prefixes are reused, so is what prompts begin with in
// common, and what was computed by an earlier Generate, or is in tiers: those are waited for as long as the pool
// expects them to be faster than computing.
//
// With Options.Guesses the likeliest tokens are chosen, and each step computes guesses of what follows, too: those that are
// right cost no step of their own. The text is the same.
//
// It stops at the first error, also of emit, and when ctx is done. Whatever happens, its sequences are released.
func (r *Runner[B]) Generate(ctx context.Context, prompts []Prompt, maxTokens int, s Sampling,
	emit func(seq int, token uint32) error) (report Report, err error) {
	return r.GoOn(ctx, prompts, maxTokens, s, emit, nil, nil)
}

// Held is where a text is left, to go on with it later.
type Held[B backend.Buffer] struct {
	Seq     *kvcache.Sequence[B] // has all tokens but the last ones
	Tokens  []uint32             // the prompt and what followed
	Sampler []byte               // its state
	Over    bool                 // the model ended the text
}

// GoOn is Generate of texts that begin where others were left, if from is not nil: prompts are their tokens, and what it emits is what one
// Generate would have. It owns their sequences. Where keep is not nil it gets each text where that is left, and owns its sequence, unless
// there is an error. When ctx is done it gets those that have a new token.
func (r *Runner[B]) GoOn(ctx context.Context, prompts []Prompt, maxTokens int, s Sampling, emit func(seq int, token uint32) error,
	from []Held[B], keep func(seq int, h Held[B]) error) (report Report, err error) {
	g := generation[B]{Runner: r, maxTokens: maxTokens, emit: emit, report: &report, from: from, keep: keep}
	report.Matches = make([]kvcache.Match, len(prompts))
	defer func() {
		for _, run := range g.runs {
			err = cmp.Or(err, g.end(run))
		}
	}()
	defer caught(&err)
	g.begin(prompts, s)
	g.drain(ctx, &report.Prefill, func(run *run[B], logits []float32) { run.logits = slices.Clone(logits) })
	report.Prefill -= report.Load
	g.share()
	g.drain(ctx, &report.Decode, g.next)
	return report, nil
}

// generation is the state of a Generate.
type generation[B backend.Buffer] struct {
	*Runner[B]
	runs      []*run[B]
	maxTokens int
	emit      func(seq int, token uint32) error
	report    *Report
	from      []Held[B]
	keep      func(seq int, h Held[B]) error
}

// run is one sequence of a generation.
type run[B backend.Buffer] struct {
	number  int
	prompt  Prompt
	waiting bool                 // to be opened
	seq     *kvcache.Sequence[B] // nil before it is opened or forked, and after its end
	source  *run[B]              // the first run with the same prompt, which this one forks
	logits  []float32            // after the prompt, once that is computed
	pending []uint32             // tokens that are not in the cache yet
	sampler *Sampler
	chosen  []uint32 // what a tree of guesses found to follow
	text    []uint32 // the prompt, and what was emitted
}

// begin makes a run of every prompt. Those that differ from all before them wait for a sequence.
func (g *generation[B]) begin(prompts []Prompt, s Sampling) {
	accept(g.guesses == 0 || s.Temperature <= 0, "Temperature", s.Temperature, "with Guesses the likeliest token is chosen: accepts 0")
	accept(g.guesses == 0 || s.RepeatPenalty == 0 || s.RepeatPenalty == 1, "RepeatPenalty", s.RepeatPenalty, "with Guesses the likeliest token is chosen: accepts 1")
	for i, prompt := range prompts {
		demand(len(prompt.Tokens) > 0, "generate", "prompt %d has no tokens, not even BOS", i)
		// The turns of a conversation differ in length: they draw differently, too.
		sampler, err := NewSampler(s, uint64(i)<<32|uint64(len(prompt.Tokens)))
		check(err)
		run := &run[B]{number: i, prompt: prompt, text: slices.Clip(prompt.Tokens), sampler: sampler}
		g.runs = append(g.runs, run)
		if g.from != nil {
			g.restore(run, &g.from[i])
			continue
		}
		run.source = g.runs[slices.IndexFunc(prompts, prompt.equal)]
		run.waiting = run.source == run && g.maxTokens > 0
	}
}

// restore has a run go on where its text was left.
func (g *generation[B]) restore(run *run[B], h *Held[B]) {
	run.source, run.seq = run, h.Seq
	check(run.sampler.Restore(h.Sampler))
	n := run.seq.Len()
	g.report.Matches[run.number] = kvcache.Match{Cached: n}
	if h.Over || n == g.Pool().Config().Memory.Capacity {
		check(g.finish(run, h.Over))
		return
	}
	demand(n < len(h.Tokens), "generate", "text %d has %d tokens, and its sequence %d: none is left to go on with", run.number, len(h.Tokens), n)
	run.pending = run.prompt.Tokens[n:]
}

// drain runs steps until no run has pending tokens, and calls use with the logits after the last one of a run. It reports how
// long that took.
func (g *generation[B]) drain(ctx context.Context, took *time.Duration, use func(*run[B], []float32)) {
	start := time.Now()
	defer func() { *took = time.Since(start) }()
	for more := true; more; more = g.advance(use) {
		if err := ctx.Err(); err != nil {
			g.leave()
			check(err)
		}
		g.admit(ctx)
	}
}

// leave has texts that have begun kept where they are.
func (g *generation[B]) leave() {
	for _, run := range g.runs {
		if g.keep != nil && run.seq != nil && run.emitted() > 0 {
			check(g.finish(run, false))
		}
	}
}

// advance runs one step, and reports whether a run had pending tokens.
func (g *generation[B]) advance(use func(*run[B], []float32)) bool {
	var work []Work[B]
	var in []*run[B]
	n, trees := 0, false // trees: all of a step, or none
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
		return false
	}
	begin := time.Now()
	logits, err := g.Forward(work, trees)
	if trees && errors.Is(err, kvcache.ErrOutOfBlocks{}) {
		for i, run := range in { // there may be room for what is certain
			work[i], run.chosen = Work[B]{Seq: run.seq, Tokens: work[i].Tokens[:1]}, nil
		}
		logits, err = g.Forward(work, false)
	}
	check(err)
	took := time.Since(begin)
	for i, run := range in {
		if k := len(work[i].Tokens); run.emitted() == 0 { // its part of the time for the prompts
			g.Pool().Prefilled(run.seq.Len()-k, k, took*time.Duration(k)/time.Duration(n))
		}
		if len(run.pending) == 0 {
			use(run, logits.Row(i))
		}
	}
	return true
}

// share forks the sequence of a prompt for every other run that has the same one, and chooses the first token of each: not
// before, as no sequence may end while others still need its cache.
func (g *generation[B]) share() {
	for i, run := range g.runs {
		if source := run.source; source != run && source.seq != nil {
			fork, err := source.seq.Fork()
			check(err)
			run.seq, g.report.Matches[i] = fork, kvcache.Match{Cached: len(run.prompt.Tokens)}
		}
	}
	for _, run := range g.runs {
		if run.seq != nil {
			g.next(run, run.source.logits)
		}
	}
}

// next emits the tokens that a tree of guesses found for a run, or else samples one, and puts the last one in line for the next
// step, or ends the run.
func (g *generation[B]) next(run *run[B], logits []float32) {
	if len(run.chosen) == 0 {
		run.chosen = append(run.chosen, run.sampler.Sample(logits, run.text))
	}
	for _, token := range run.chosen {
		if g.model.Stops(token) {
			check(g.finish(run, true))
			return
		}
		err := g.emit(run.number, token)
		run.text = append(run.text, token)
		if errors.Is(err, ErrEnough) {
			if n := len(run.text) - 1; n < run.seq.Len() { // which has what a tree of guesses found after it
				check(run.seq.Truncate(n))
			}
			check(g.finish(run, false))
			return
		}
		check(err)
	}
	if run.emitted() == g.maxTokens || run.seq.Len() == g.Pool().Config().Memory.Capacity {
		check(g.finish(run, false))
		return
	}
	run.pending, run.chosen = run.text[len(run.text)-1:], run.chosen[:0]
}

// emitted is how many tokens a run has after its prompt.
func (run *run[B]) emitted() int { return len(run.text) - len(run.prompt.Tokens) }

// finish ends a run that has done what it was asked for.
func (g *generation[B]) finish(run *run[B], over bool) error {
	if g.keep == nil {
		return g.end(run)
	}
	h := Held[B]{Seq: run.seq, Tokens: run.text, Sampler: run.sampler.State(), Over: over}
	if err := g.count(run); err != nil {
		return err
	}
	run.seq = nil
	return g.keep(run.number, h)
}

// end releases a run's sequence, if it has one.
func (g *generation[B]) end(run *run[B]) error {
	if run.seq == nil {
		return nil
	}
	err, seq := g.count(run), run.seq
	run.seq = nil
	return errors.Join(err, seq.Release())
}

// count adds what a run did to the report.
func (g *generation[B]) count(run *run[B]) error {
	stats, err := g.Pool().Stats()
	n, prompt := run.seq.Len(), len(run.prompt.Tokens)
	computed := min(n, prompt) - g.report.Matches[run.number].Cached
	g.report.Add(Report{PrefillTokens: computed, DecodeTokens: max(n-prompt, 0), Cache: stats})
	return err
}
