package runner

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"gonum.org/v1/gonum/blas/blas32"
)

// Work is the new tokens of one sequence in a step.
type Work[B backend.Buffer] struct {
	Seq    *kvcache.Sequence[B]
	Tokens []uint32
	// Rest are the sequence's parts in the pools of layers 1 and on, with Options.LayerPools.
	Rest []*kvcache.Sequence[B]
}

// of is the sequence's part in a pool.
func (w *Work[B]) of(pool int) *kvcache.Sequence[B] {
	if pool == 0 {
		return w.Seq
	}
	return w.Rest[pool-1]
}

// Forward runs one step: the tokens of all of work, in one batch. It returns the
// logits [len(work), vocab] of each sequence's last token or, with all, those of
// every token [tokens, vocab]; they are valid until the next call. When it fails
// the sequences are as they were before.
//
// A row of the result does not depend on what else is in the batch, nor on how a
// prompt is cut into steps, as far as the device's attention does not.
func (r *Runner[B]) Forward(work []Work[B], all bool) (logits blas32.General, err error) {
	defer func() {
		if err != nil {
			_ = r.each((*kvcache.Batch[B]).Reset) // gives back what the step took; err is the cause
		}
	}()
	if err := r.each((*kvcache.Batch[B]).Reset); err != nil {
		return logits, err
	}
	m, n := r.model, 0
	for _, w := range work {
		if len(w.Tokens) > r.rows-n {
			return logits, backend.ErrArgument{Package: "runner", Op: "forward", What: fmt.Sprintf("more than the %d tokens of a step", r.rows)}
		}
		if len(w.Rest) != len(r.steps)-1 {
			return logits, backend.ErrArgument{Package: "runner", Op: "forward", What: fmt.Sprintf("%d sequences: need one for each of %d pools", 1+len(w.Rest), len(r.steps))}
		}
		for i, step := range r.steps {
			if err := step.Add(w.of(i), w.Tokens); err != nil {
				return logits, err
			}
		}
		for _, token := range w.Tokens {
			if uint64(token) >= uint64(m.Vocab) {
				return logits, backend.ErrArgument{Package: "runner", Op: "forward", What: fmt.Sprintf("token %d: the vocabulary has %d", token, m.Vocab)}
			}
			copy(r.x[n*m.Dim:], m.Embed.Data[int(token)*m.Dim:][:m.Dim])
			n++
		}
	}
	if err := r.each(func(step *kvcache.Batch[B]) error { return step.Plan(r.stream) }); err != nil {
		return logits, err
	}
	for l := range m.Layers {
		if err := r.attention(l, n); err != nil {
			return logits, err
		}
		r.feedForward(l, n)
	}
	if err := r.each((*kvcache.Batch[B]).Commit); err != nil {
		return logits, err
	}

	if !all { // gather the last row of each sequence
		n = 0
		for i, w := range work {
			n += len(w.Tokens)
			copy(r.x[i*m.Dim:], r.x[(n-1)*m.Dim:n*m.Dim])
		}
		n = len(work)
	}
	r.norm(r.h, r.x, m.Norm, n)
	r.logits = slices.Grow(r.logits[:0], n*m.Vocab)[:n*m.Vocab]
	r.multiply(0, r.logits, m.Output, r.h, n)
	return blas32.General{Rows: n, Cols: m.Vocab, Stride: m.Vocab, Data: r.logits}, nil
}

// each does something with every pool's part of the step.
func (r *Runner[B]) each(do func(*kvcache.Batch[B]) error) error {
	for _, step := range r.steps {
		if err := do(step); err != nil {
			return err
		}
	}
	return nil
}

// attention adds a layer's attention over the cache to the hidden states. This
// is all that a runner does with the cache in a layer.
func (r *Runner[B]) attention(l, n int) error {
	w := &r.model.Layers[l]
	r.norm(r.h, r.x, w.AttnNorm, n)
	r.multiply(0, r.q.host, w.Q, r.h, n)
	r.multiply(0, r.k.host, w.K, r.h, n)
	r.multiply(0, r.v.host, w.V, r.h, n)
	for _, p := range []*port[B]{r.q, r.k, r.v} {
		if err := p.send(r.stream, n); err != nil {
			return err
		}
	}

	step := r.steps[0]
	if len(r.steps) > 1 {
		step, l = r.steps[l], 0
	}
	io := kvcache.Dense(r.q.buf, r.k.buf, r.v.buf, r.out.buf)
	io.Rotate = true
	if err := step.Append(l, io); err != nil {
		return err
	}
	if err := step.Attend(l, io); err != nil {
		return err
	}

	if err := r.out.receive(r.stream, n); err != nil {
		return err
	}
	r.multiply(1, r.x, w.O, r.out.host, n)
	return nil
}

// feedForward adds a layer's SwiGLU block to the hidden states.
func (r *Runner[B]) feedForward(l, n int) {
	m, w := r.model, &r.model.Layers[l]
	r.norm(r.h, r.x, w.FFNNorm, n)
	r.multiply(0, r.gate, w.Gate, r.h, n)
	r.multiply(0, r.up, w.Up, r.h, n)
	r.parallel(n, 32*m.Hidden, func(from, to int) {
		for i := from * m.Hidden; i < to*m.Hidden; i++ {
			g := float64(r.gate[i])
			r.gate[i] = float32(g/(1+math.Exp(-g))) * r.up[i]
		}
	})
	r.multiply(1, r.x, w.Down, r.gate, n)
}
