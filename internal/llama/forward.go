package llama

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
}

// Forward runs one step: the tokens of all of work, in one batch. It returns the
// logits [len(work), vocab] of each sequence's last token or, with all, those of
// every token [tokens, vocab]; they are valid until the next call. When it fails
// the sequences are as they were before.
//
// A row of the result does not depend on what else is in the batch, nor on how a
// prompt is cut into steps, as far as the device's attention does not.
func (r *Runner[B]) Forward(work []Work[B], all bool) (blas32.General, error) {
	n, err := r.forward(work)
	if err != nil {
		_ = r.step.Reset() // gives back what the step took; err is the cause
		return blas32.General{}, err
	}
	m, rows := r.model, n
	if !all { // gather the last row of each sequence
		at := 0
		for i, w := range work {
			at += len(w.Tokens)
			copy(r.x[i*m.Dim:(i+1)*m.Dim], r.x[(at-1)*m.Dim:at*m.Dim])
		}
		rows = len(work)
	}
	r.norm(r.h, r.x, m.Norm, rows)
	r.logits.Data = slices.Grow(r.logits.Data[:0], rows*m.Vocab)[:rows*m.Vocab]
	r.logits.Rows, r.logits.Cols, r.logits.Stride = rows, m.Vocab, m.Vocab
	r.multiply(r.logits.Data, m.Output, r.h, rows)
	return r.logits, nil
}

// forward leaves the hidden states of n tokens in r.x.
func (r *Runner[B]) forward(work []Work[B]) (n int, err error) {
	if err := r.step.Reset(); err != nil {
		return 0, err
	}
	for _, w := range work {
		if len(w.Tokens) > r.rows-n {
			return 0, backend.ErrShape{Op: "forward", What: fmt.Sprintf("more than the %d tokens of a step", r.rows)}
		}
		if err := r.step.Add(w.Seq, w.Tokens); err != nil {
			return 0, err
		}
		for _, token := range w.Tokens {
			if uint64(token) >= uint64(r.model.Vocab) {
				return 0, backend.ErrShape{Op: "forward", What: fmt.Sprintf("token %d: the vocabulary has %d", token, r.model.Vocab)}
			}
			dim := r.model.Dim
			copy(r.x[n*dim:], r.model.Embed.Data[int(token)*dim:int(token+1)*dim])
			n++
		}
	}
	if err := r.step.Plan(r.stream); err != nil {
		return 0, err
	}
	for l := range r.model.Layers {
		if err := r.attention(l, n); err != nil {
			return 0, err
		}
		r.feedForward(l, n)
	}
	return n, r.step.Commit()
}

// attention adds a layer's attention over the cache to the hidden states. This
// is all that a runner does with the cache in a layer.
func (r *Runner[B]) attention(l, n int) error {
	m, w := r.model, &r.model.Layers[l]
	r.norm(r.h, r.x, w.AttnNorm, n)
	r.multiply(r.q.host, w.Q, r.h, n)
	r.multiply(r.k.host, w.K, r.h, n)
	r.multiply(r.v.host, w.V, r.h, n)
	for _, p := range []struct {
		port[B]
		heads int
	}{{r.q, m.Heads}, {r.k, m.KVHeads}, {r.v, m.KVHeads}} {
		if err := r.send(p.port, n*p.heads*m.HeadDim); err != nil {
			return err
		}
	}

	if err := r.step.AppendRotated(l, r.q.buf, r.k.buf, r.v.buf); err != nil {
		return err
	}
	if err := r.step.Attend(l, r.q.buf, r.out.buf); err != nil {
		return err
	}

	if err := r.receive(r.out, n*m.Heads*m.HeadDim); err != nil {
		return err
	}
	r.multiply(r.h, w.O, r.out.host, n)
	r.add(n)
	return nil
}

// feedForward adds a layer's SwiGLU block to the hidden states.
func (r *Runner[B]) feedForward(l, n int) {
	m, w := r.model, &r.model.Layers[l]
	r.norm(r.h, r.x, w.FFNNorm, n)
	r.multiply(r.gate, w.Gate, r.h, n)
	r.multiply(r.up, w.Up, r.h, n)
	r.parallel(n, 32*m.Hidden, func(from, to int) {
		for i := from * m.Hidden; i < to*m.Hidden; i++ {
			g := float64(r.gate[i])
			r.gate[i] = float32(g/(1+math.Exp(-g))) * r.up[i]
		}
	})
	r.multiply(r.h, w.Down, r.gate, n)
	r.add(n)
}

// add adds n rows of r.h to the hidden states.
func (r *Runner[B]) add(n int) {
	for i, v := range r.h[:n*r.model.Dim] {
		r.x[i] += v
	}
}
