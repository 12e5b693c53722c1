package quality

import (
	"context"
	"errors"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/llama"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/evictor"
)

// Score is what one format under one policy made of the texts. Means are over all
// predicted tokens.
type Score struct {
	Format string `json:"format"`
	Policy string `json:"policy"`
	// Budget is the tokens that a layer had at most, on average over the layers; 0: all.
	Budget int `json:"budget,omitempty"`
	// NLL is the negative log-likelihood of the text, in nats a token.
	NLL float64 `json:"nll"`
	// KL is the divergence of the prediction from that of the reference, in nats.
	KL float64 `json:"kl"`
	// Top1 is how often the likeliest token is the reference's.
	Top1 float64 `json:"top1"`
	// Bytes is what the cache held at most, of one text: blocks with their scales.
	Bytes int64 `json:"bytes"`
	// Tokens is how many were predicted.
	Tokens int `json:"tokens"`
}

// Meter measures a model on texts, for one goroutine at a time. It runs the reference
// once and keeps its logits: 4 bytes for each predicted token and token of the vocabulary.
type Meter[B backend.Buffer] struct {
	// Progress is told of predicted tokens as they come; nil: nobody is.
	Progress func(tokens int)

	be        backend.Backend[B]
	model     *llama.Model
	texts     [][]uint32
	threads   int
	reference Score
	want      [][]float32 // [texts] of [tokens−1, vocab]: logits of the reference
}

// NewMeter prepares to measure on be, with so many threads for matrix products; 0: GOMAXPROCS.
func NewMeter[B backend.Buffer](be backend.Backend[B], m *llama.Model, texts [][]uint32, threads int) *Meter[B] {
	return &Meter[B]{be: be, model: m, texts: texts, threads: threads}
}

// Tokens is how many are predicted for a score.
func (m *Meter[B]) Tokens() (n int) {
	for _, text := range m.texts {
		n += len(text) - 1
	}
	return n
}

// Measure scores a format under a policy. A pair that does not go together is the error of
// Format.Under; others are of the device and the cache.
func (m *Meter[B]) Measure(ctx context.Context, f Format, p Policy) (Score, error) {
	if err := f.Under(p); err != nil {
		return Score{}, err
	}
	reference, err := m.Reference(ctx)
	if err != nil || f.Name == Reference && !p.Evicts() {
		return reference, err
	}
	s := Score{Format: f.Name, Policy: p.Name, Budget: p.Budget}
	err = m.score(ctx, &s, f, p, func(text, at int, _ []float32) []float32 {
		return m.want[text][at*m.model.Vocab:][:m.model.Vocab]
	})
	return s, err
}

// Reference is the score that others are compared with: of everything in float32.
func (m *Meter[B]) Reference(ctx context.Context) (Score, error) {
	if m.want != nil {
		return m.reference, nil
	}
	f, err := ParseFormat(Reference)
	if err != nil {
		return Score{}, err
	}
	s := Score{Format: f.Name, Policy: Everything}
	want := make([][]float32, len(m.texts))
	err = m.score(ctx, &s, f, Policy{}, func(text, _ int, logits []float32) []float32 {
		want[text] = append(want[text], logits...)
		return logits
	})
	if err == nil {
		m.want, m.reference = want, s
	}
	return s, err
}

// score reads all texts. want is the reference's logits behind a token of a text, of which
// these are the ones that came.
func (m *Meter[B]) score(ctx context.Context, s *Score, f Format, p Policy, want func(text, at int, logits []float32) []float32) error {
	for i, text := range m.texts {
		at := 0
		bytes, err := m.read(ctx, f, p, text, func(logits []float32) {
			s.add(want(i, at, logits), logits, text[at+1])
			at++
		})
		if err != nil {
			return err
		}
		s.Bytes = max(s.Bytes, bytes)
	}
	n := float64(s.Tokens)
	s.NLL, s.KL, s.Top1 = s.NLL/n, s.KL/n, s.Top1/n
	return nil
}

// add counts one prediction of the token that came.
func (s *Score) add(want, got []float32, token uint32) {
	w, g := logSum(want), logSum(got)
	bestWant, bestGot := 0, 0
	for i := range want {
		lw, lg := float64(want[i])-w, float64(got[i])-g
		s.KL += math.Exp(lw) * (lw - lg)
		if want[i] > want[bestWant] {
			bestWant = i
		}
		if got[i] > got[bestGot] {
			bestGot = i
		}
	}
	s.NLL += g - float64(got[token])
	if bestWant == bestGot {
		s.Top1++
	}
	s.Tokens++
}

// logSum is the logarithm of the softmax's denominator.
func logSum(logits []float32) float64 {
	top := math.Inf(-1)
	for _, x := range logits {
		top = max(top, float64(x))
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	return top + math.Log(sum)
}

const (
	chunk      = 64 // tokens of a step where it does not matter how a text is cut
	slackShare = 8  // of a budget, one part is dropped at a time
)

// read runs the model over a text and calls use with the logits behind each token but the
// last. It returns the bytes that the cache held at most.
func (m *Meter[B]) read(ctx context.Context, f Format, p Policy, text []uint32, use func([]float32)) (bytes int64, err error) {
	cfg := f.config(len(text))
	step := chunk
	var keeper *evictor.Evictor[B]
	if p.Evicts() {
		policy := p.make(p.Budget)
		cfg.Scores = policy.NeedsScores()
		keeper, err = evictor.New[B](evictor.Options{Policy: policy, Budget: p.Budget, Slack: p.Budget / slackShare, FreshScores: p.fresh})
		if err != nil {
			return 0, err
		}
	}
	if keeper != nil || f.residual > 0 { // as in decoding: what a query sees depends on how the text is cut
		step = 1
	}
	r, err := llama.New(m.be, m.model, llama.Options{Cache: cfg, Chunk: step, Threads: m.threads, LayerPools: p.layers})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	parts := make([]*kvcache.Sequence[B], len(r.Pools()))
	for i, pool := range r.Pools() {
		if parts[i], _, err = pool.Open(ctx, nil); err != nil {
			return 0, err
		}
	}
	for at := 0; at < len(text)-1; at += step {
		n := min(step, len(text)-1-at)
		if keeper != nil {
			if _, err := keeper.Room(r.Stream(), n, parts...); err != nil {
				return 0, err
			}
		}
		logits, err := r.Forward([]llama.Work[B]{{Seq: parts[0], Rest: parts[1:], Tokens: text[at:][:n]}}, true)
		if err != nil {
			return 0, err
		}
		for i := range n {
			use(logits.Data[i*logits.Stride:][:logits.Cols])
		}
		held, err := heldBytes(r.Pools())
		if err != nil {
			return 0, err
		}
		bytes = max(bytes, held)
		if m.Progress != nil {
			m.Progress(n)
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	return bytes, nil
}

// heldBytes is what the blocks of some pools take that are in use.
func heldBytes[B backend.Buffer](pools []*kvcache.Pool[B]) (bytes int64, err error) {
	for _, pool := range pools {
		st, err := pool.Stats()
		if err != nil {
			return 0, err
		}
		bytes += st.BytesHeld
	}
	return bytes, nil
}
