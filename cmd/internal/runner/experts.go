package runner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// experts is a feed-forward block of which a router chooses parts for each token.
type experts struct {
	Count, Top int    // experts, and those of a token
	Hidden     int    // elements inside of one
	OverAll    bool   // scores of the chosen ones are a softmax over all experts, else over the chosen ones
	OfInputs   bool   // scores are sigmoids, and factors of the inputs, as in Llama 4, else of the outputs
	Shared     int    // elements inside of an expert that all tokens have; 0: there is none
	SharedGate bool   // that one's output is multiplied by the sigmoid of a projection
	Router     string // what a file calls it
	Bias       bool
	// Packed is one tensor [experts, inputs, outputs] of all, gates and ups in one; else each has matrices [outputs, inputs].
	Packed  bool
	ByTurns bool // of packed ones: a gate and an up alternate, else all gates first
	Stacked bool // gates, ups and downs are tensors [experts, outputs, inputs], as GGUF has them
}

// expertWeights are the weights of experts.
type expertWeights struct {
	Router, SharedGate Matrix
	Each               []FeedForward
}

func (w *loader) experts(b *Block, out *Layer) {
	e, dim, ffn := &b.Experts, w.cfg.Dim, w.cfg.FFN
	out.Experts.Router = w.matrix(ffn+e.Router, e.Count, dim, e.Bias)
	if e.Shared > 0 {
		out.FFN = w.feedForward(ffn+"shared_expert.", e.Shared)
	}
	if e.SharedGate {
		out.Experts.SharedGate = w.matrix(ffn+"shared_expert_gate", 1, dim, false)
	}
	if e.Stacked {
		part := ffn + "experts."
		gates, ups, downs := w.stacked(part+"gate_proj", e, e.Hidden, dim), w.stacked(part+"up_proj", e, e.Hidden, dim), w.stacked(part+"down_proj", e, dim, e.Hidden)
		for i := range e.Count {
			out.Experts.Each = append(out.Experts.Each, FeedForward{gates[i], ups[i], downs[i]})
		}
		return
	}
	if !e.Packed {
		for i := range e.Count {
			out.Experts.Each = append(out.Experts.Each, w.feedForward(fmt.Sprintf("%sexperts.%d.", ffn, i), e.Hidden))
		}
		return
	}
	heads := 1 // each of a part of the gates and of the ups
	if e.ByTurns {
		heads = e.Hidden
	}
	both, bothBias := w.packed(ffn+"experts.gate_up_proj", e, dim, 2*e.Hidden)
	down, downBias := w.packed(ffn+"experts.down_proj", e, e.Hidden, dim)
	for i := range e.Count {
		m, bias := both.rows(1, i*dim, (i+1)*dim).transposed(), bothBias.rows(1, 2*i*e.Hidden, 2*(i+1)*e.Hidden)
		half := e.Hidden / heads
		out.Experts.Each = append(out.Experts.Each, FeedForward{
			Gate: m.rows(heads, 0, half).pack(bias.rows(heads, 0, half)),
			Up:   m.rows(heads, half, 2*half).pack(bias.rows(heads, half, 2*half)),
			Down: down.rows(1, i*e.Hidden, (i+1)*e.Hidden).transposed().pack(downBias.rows(1, i*dim, (i+1)*dim)),
		})
	}
}

// stacked is the matrices of all experts, which are in one tensor.
func (w *loader) stacked(part string, e *experts, rows, cols int) []Matrix {
	t := w.find(w.layer+part+".weight", e.Count, rows, cols)
	var biases []float32
	if e.Bias {
		biases = w.raw(part+".bias", e.Count, rows).data
	}
	all := make([]Matrix, e.Count)
	for i := range all {
		if w.header {
			break
		}
		one := t
		one.shape, one.data = []int{rows, cols}, t.data[len(t.data)/e.Count*i:][:len(t.data)/e.Count]
		if m, ok := w.codes(one, rows, cols); ok {
			all[i].Matrix = m
		} else {
			all[i] = w.decoded(one).pack(dense{shape: []int{rows}})
		}
		if e.Bias {
			all[i].Bias = biases[i*rows : (i+1)*rows : (i+1)*rows]
		}
	}
	return all
}

// packed is the matrices of all experts as one [experts*inputs, outputs], and their biases.
func (w *loader) packed(name string, e *experts, in, out int) (m, bias dense) {
	if m = w.raw(name, e.Count, in, out); e.Bias {
		bias = w.raw(name+"_bias", e.Count, out)
	}
	m.shape, bias.shape = []int{e.Count * in, out}, []int{e.Count * out}
	return m, bias
}

// choose leaves of scores those of the chosen experts, as what they become, and zeros.
func (e *experts) choose(scores []float32) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
	top, over, sum := float64(scores[order[0]]), e.Top, 0.0
	if e.OverAll {
		over = e.Count
	}
	for _, i := range order[:over] {
		sum += math.Exp(float64(scores[i]) - top)
	}
	for rank, i := range order {
		switch {
		case rank >= e.Top:
			scores[i] = 0
		case e.OfInputs:
			scores[i] = sigmoid(scores[i])
		default:
			scores[i] = float32(math.Exp(float64(scores[i])-top) / sum)
		}
	}
}

// route adds what the chosen experts, and the shared one, make of the n rows of in to those of dst.
func (r *Runner[B]) route(dst []float32, b *Block, w *Layer, in []float32, n int) {
	e := &b.Experts
	scores := r.project("scores", &w.Experts.Router, in, n)
	for t := range n {
		e.choose(scores[t*e.Count : (t+1)*e.Count])
	}
	for i := range w.Experts.Each {
		r.expert(dst, b, &w.Experts.Each[i], in, n, func(t int) float32 { return scores[t*e.Count+i] })
	}
	switch {
	case e.Shared == 0:
	case e.SharedGate:
		gates := r.project("gates", &w.Experts.SharedGate, in, n)
		r.expert(dst, b, &w.FFN, in, n, func(t int) float32 { return sigmoid(gates[t]) })
	default:
		r.expert(dst, b, &w.FFN, in, n, func(int) float32 { return 1 })
	}
}

// expert adds what an expert makes of those of n rows for which it has a score that is not 0.
func (r *Runner[B]) expert(dst []float32, b *Block, w *FeedForward, in []float32, n int, score func(t int) float32) {
	dim := r.model.Dim
	rows, out := r.floats("rows", n*dim), r.floats("out", n*dim)
	by := r.floats("by", n) // what outputs are multiplied by
	var of []int            // the rows
	for t := range n {
		if s := score(t); s != 0 {
			row := rows[len(of)*dim : (len(of)+1)*dim]
			if copy(row, in[t*dim:]); b.Experts.OfInputs {
				scale(row, s)
				s = 1
			}
			by[len(of)] = s
			of = append(of, t)
		}
	}
	if len(of) == 0 {
		return
	}
	r.feedForward(out, false, b.Act, w, rows, len(of))
	for i, t := range of {
		addScaled(dst[t*dim:], out[i*dim:(i+1)*dim], by[i])
	}
}
