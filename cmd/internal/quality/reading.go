package quality

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/evictor"
)

const (
	chunk      = 64 // tokens of a step where it does not matter how a text is cut
	slackShare = 8  // of a budget, one part is dropped at a time
)

// reading is a model on its way through a text.
type reading[B backend.Buffer] struct {
	*runner.Runner[B]
	score  *Score
	scene  Scene
	step   int                    // most tokens of a step
	keeper *evictor.Evictor[B]    // nil: nothing is evicted
	parts  []*kvcache.Sequence[B] // one, or one for each layer
}

// read runs the model over a text and calls use with the logits after each token from the
// scene's start on but the last. It counts in s what it did, and the bytes that the cache held
// at most.
func (m *Meter[B]) read(ctx context.Context, s *Score, scene Scene, f Format, p Policy, text []uint32, use func(at int, logits []float32)) (err error) {
	r, err := m.begin(s, scene, f, p, len(text))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	start, at := scene.start(len(text)), 0
	if scene.reuses { // whatever is exact is not found: see kvcache.Storage.Residual
		if err := r.leave(ctx, text[:start+f.residual]); err != nil {
			return err
		}
		if at, err = r.open(text); err != nil {
			return err
		}
		if s.Reused += at; at != start {
			return fmt.Errorf("scene %s in %s: %d tokens of %d were found", scene.Name, f.Name, at, start)
		}
	} else if _, err = r.open(nil); err != nil {
		return err
	}
	for end := len(text) - 1; at < end; {
		n, logits, err := r.forward(ctx, text[at:end])
		if err != nil {
			return err
		}
		predicted := 0
		for i := max(start-at, 0); i < n; i++ {
			use(at+i, logits[i*m.model.Vocab:][:m.model.Vocab])
			predicted++
		}
		if at += n; m.Progress != nil {
			m.Progress(predicted)
		}
	}
	return nil
}

// begin makes the cache for a text of that many tokens.
func (m *Meter[B]) begin(s *Score, scene Scene, f Format, p Policy, tokens int) (*reading[B], error) {
	r := &reading[B]{score: s, scene: scene, step: chunk}
	cfg := f.config(tokens)
	scene.configure(&cfg, len(m.model.Layers))
	var err error
	if p.Evicts() {
		policy := p.make(p.Budget)
		cfg.Attention.Scores = policy.NeedsScores()
		r.keeper, err = evictor.New[B](evictor.Options{Policy: policy, Budget: p.Budget, Slack: p.Budget / slackShare, ResetScoresAfterEvict: p.fresh})
		if err != nil {
			return nil, err
		}
	}
	if r.keeper != nil || f.residual > 0 { // as in decoding: what a query sees depends on how the text is cut
		r.step = 1
	}
	r.Runner, err = runner.New(m.be, m.model, runner.Options{Cache: cfg, Chunk: r.step, Threads: m.threads, LayerPools: p.layers})
	return r, err
}

// open starts a sequence in every pool, and says how much of a prompt was found.
func (r *reading[B]) open(prompt []uint32) (matched int, err error) {
	r.parts = r.parts[:0]
	for _, pool := range r.Pools() {
		part, match, err := pool.Open(prompt, kvcache.OpenOptions{})
		if err != nil {
			return 0, err
		}
		r.parts, matched = append(r.parts, part), match.Cached
	}
	return matched, nil
}

// leave computes a prompt for others to find.
func (r *reading[B]) leave(ctx context.Context, prompt []uint32) error {
	if _, err := r.open(prompt); err != nil {
		return err
	}
	for rest := prompt; len(rest) > 0; {
		n, _, err := r.forward(ctx, rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return r.parts[0].Release()
}

// forward makes room and runs a step over the first n of some tokens, as many as it may have.
// It returns the logits after each [n, vocab], valid until the next step.
func (r *reading[B]) forward(ctx context.Context, tokens []uint32) (n int, logits []float32, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	n = min(r.step, len(tokens))
	if r.keeper != nil {
		if _, err := r.keeper.EnsureBudget(r.Stream(), n, r.parts...); err != nil {
			return 0, nil, err
		}
	}
	if r.scene.shifts {
		if err := r.shift(); err != nil {
			return 0, nil, err
		}
		n = min(n, r.scene.Context-r.parts[0].Len())
	}
	out, err := r.Forward([]runner.Work[B]{{Seq: r.parts[0], Rest: r.parts[1:], Tokens: tokens[:n]}}, true)
	if err != nil {
		return 0, nil, err
	}
	held := int64(0)
	for _, pool := range r.Pools() {
		st, err := pool.Stats()
		if err != nil {
			return 0, nil, err
		}
		held += st.BytesHeld
	}
	r.score.Bytes = max(r.score.Bytes, held)
	return n, out.Data, nil
}

// shift makes room where there is none: of what is after the sinks the older half is dropped.
func (r *reading[B]) shift() error {
	seq := r.parts[0]
	if seq.Len() < r.scene.Context {
		return nil
	}
	r.score.Shifts++
	return seq.Shift(r.Stream(), sinks, sinks+(seq.Len()-sinks)/2)
}
