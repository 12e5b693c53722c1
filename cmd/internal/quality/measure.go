package quality

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
)

// Score is what one format under one policy made of the texts. Means are over all
// predicted tokens.
type Score struct {
	Format string `json:"format"`
	Policy string `json:"policy"`
	// Budget is the tokens that a layer had at most, on average over the layers; 0: all.
	Budget int `json:"budget,omitempty"`
	// Scene is how the cache was used; "": each text was read once, from its beginning.
	Scene string `json:"scene,omitempty"`
	// Context is the scene's, in tokens; 0: it has none.
	Context int `json:"context,omitempty"`
	// Reused is the tokens of all texts that were found in the cache.
	Reused int `json:"reused,omitempty"`
	// Shifts is how often tokens were dropped since there was no more room.
	Shifts int `json:"shifts,omitempty"`
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
	// Progress, if set, is called with numbers of tokens as they are predicted.
	Progress func(tokens int)

	be        backend.Backend[B]
	model     *runner.Model
	texts     [][]uint32
	scene     Scene
	threads   int
	reference Score
	want      [][]float32 // [texts] of [predicted tokens, vocab]: logits of the reference
}

// NewMeter prepares to measure on be, with that many threads for matrix products; 0: GOMAXPROCS.
func NewMeter[B backend.Buffer](be backend.Backend[B], m *runner.Model, texts [][]uint32, threads int) *Meter[B] {
	return &Meter[B]{be: be, model: m, texts: texts, threads: threads}
}

// In measures the same in a scene, with those texts that are long enough for it; where none
// is, that is an error.
func (m *Meter[B]) In(s Scene) (*Meter[B], error) {
	in := &Meter[B]{Progress: m.Progress, be: m.be, model: m.model, scene: s, threads: m.threads}
	for _, text := range m.texts {
		if len(text) >= s.least() {
			in.texts = append(in.texts, text)
		}
	}
	if len(in.texts) == 0 {
		return nil, fmt.Errorf("scene %s: needs a text of %d tokens", s.Name, s.least())
	}
	return in, nil
}

// Texts is how many are read.
func (m *Meter[B]) Texts() int { return len(m.texts) }

// Tokens is how many are predicted for a score.
func (m *Meter[B]) Tokens() (n int) {
	for _, text := range m.texts {
		n += len(text) - 1 - m.scene.start(len(text))
	}
	return n
}

// Measure scores a format under a policy. A pair that does not go together is the error of
// Format.Under, as is a policy that evicts in a scene; others are of the device and the cache.
func (m *Meter[B]) Measure(ctx context.Context, f Format, p Policy) (Score, error) {
	if err := cmp.Or(f.Under(p), m.scene.Under(p)); err != nil {
		return Score{}, err
	}
	reference, err := m.Reference(ctx)
	if err != nil || m.scene.Refers(f, p) {
		return reference, err
	}
	s := Score{Format: f.Name, Policy: p.Name, Budget: p.Budget, Scene: m.scene.Name, Context: m.scene.Context}
	err = m.score(ctx, &s, m.scene, f, p, func(text, at int, _ []float32) []float32 {
		return m.want[text][at*m.model.Vocab:][:m.model.Vocab]
	})
	return s, err
}

// Reference is the score that others are compared with: of everything in float32, in the
// same scene, but with nothing reused.
func (m *Meter[B]) Reference(ctx context.Context) (Score, error) {
	if m.want != nil {
		return m.reference, nil
	}
	f, err := ParseFormat(Reference)
	if err != nil {
		return Score{}, err
	}
	s := Score{Format: f.Name, Policy: Everything, Scene: m.scene.Name, Context: m.scene.Context}
	want := make([][]float32, len(m.texts))
	err = m.score(ctx, &s, m.scene.afresh(), f, Policy{}, func(text, _ int, logits []float32) []float32 {
		want[text] = append(want[text], logits...)
		return logits
	})
	if err == nil {
		m.want, m.reference = want, s
	}
	return s, err
}

// score reads all texts. want is the reference's logits after a token that is predicted from,
// of which these are the ones that came.
func (m *Meter[B]) score(ctx context.Context, s *Score, scene Scene, f Format, p Policy, want func(text, at int, logits []float32) []float32) error {
	for i, text := range m.texts {
		start := scene.start(len(text))
		err := m.read(ctx, s, scene, f, p, text, func(at int, logits []float32) {
			s.add(want(i, at-start, logits), logits, text[at+1])
		})
		if err != nil {
			return err
		}
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
