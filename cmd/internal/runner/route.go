package runner

import (
	"cmp"
	"math"
	"slices"
)

// choose leaves of a token's logits of all experts the scores of those that are chosen, as what they become, and zeros. correction
// is what is added to scores where they are compared, of each expert or of none.
func (e *experts) choose(logits, correction []float32) {
	scores, sum := make([]float64, len(logits)), 0.0
	top := float64(slices.Max(logits))
	for i, logit := range logits {
		if scores[i] = math.Exp(float64(logit) - top); e.Sigmoid {
			scores[i] = 1 / (1 + math.Exp(-float64(logit)))
		}
		sum += scores[i]
	}
	if !e.Sigmoid {
		for i := range scores {
			scores[i] /= sum
		}
	}
	compared := slices.Clone(scores)
	for i, v := range correction {
		compared[i] += float64(v)
	}
	e.limit(compared)
	best := descending(compared)
	sum = 0
	for _, i := range best[:e.Top] {
		sum += scores[i]
	}
	by := float64(cmp.Or(e.Scale, 1))
	if e.Normed {
		by /= sum
	}
	clear(logits)
	for _, i := range best[:e.Top] {
		logits[i] = float32(scores[i] * by)
	}
}

// limit leaves those scores that are in a token's groups of experts, and of others the least there is.
func (e *experts) limit(scores []float64) {
	if e.Groups < 2 {
		return
	}
	each, of := len(scores)/e.Groups, make([]float64, e.Groups)
	for g := range of {
		group := scores[g*each : (g+1)*each]
		for _, i := range descending(group)[:min(e.GroupBest, each)] {
			of[g] += group[i]
		}
	}
	for _, g := range descending(of)[e.TopGroups:] {
		for i := range each {
			scores[g*each+i] = math.Inf(-1)
		}
	}
}

// descending is the indexes of values, that of the largest first, and of equal ones the first.
func descending(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(values[j], values[i]) })
	return order
}

// route adds what the chosen experts, and the shared one, make of the n rows of in to those of dst.
func (r *Runner[B]) route(dst []float32, b *Block, w *Layer, in []float32, n int) {
	e := &b.Experts
	scores := r.project("scores", &w.Experts.Router, in, n)
	for t := range n {
		e.choose(scores[t*e.Count:(t+1)*e.Count], w.Experts.Correction)
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
