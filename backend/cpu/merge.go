package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// partials are attention results over disjoint keys: normalised rows
// and the log-sum-exp of each. Given ones may be of kernels that write +∞ for a query
// that sees no key; an attention's own parts have that from an infinite score only,
// which must show.
type partials struct {
	rows  vectors
	lse   []float32
	given bool
}

// of is the log-sum-exp of a row.
func (p *partials) of(row int) float32 {
	if lse := p.lse[row]; !p.given || !math.IsInf(float64(lse), 1) {
		return lse
	}
	return float32(math.Inf(-1))
}

// merge combines rows first, first+step, … into acc and returns the log-sum-exp
// of all. A part of weight 0 does not matter, whatever its row holds: where there is one other, its row
// is the result, bit for bit.
func (p *partials) merge(acc []float32, first, step, parts int, w *scratch) float32 {
	clear(acc)
	top := float32(math.Inf(-1))
	for i := range parts {
		top = max(top, p.of(first+i*step))
	}
	if math.IsInf(float64(top), -1) {
		return top
	}
	var sum float64
	counted, rows, weights := 0, w.values[:0], w.weights[:]
	for i := range parts {
		weight := math.Exp(float64(p.of(first+i*step)) - float64(top))
		if weight != 0 {
			weights[len(rows)] = float32(weight)
			rows = append(rows, stored{dt: p.rows.dt, dim: len(acc), n: 1, data: p.rows.at(first+i*step, 0, len(acc))})
			sum += weight
			counted++
		}
		if i == parts-1 && counted == 1 && sum == 1 { // added to 0, −0 would become 0
			p.rows.k.decode[p.rows.dt](acc, rows[0])
			w.runs(1)
			return top
		}
		if len(rows) == len(weights) || i == parts-1 && len(rows) > 0 {
			p.rows.k.mix[p.rows.dt](acc, noShrink[:1], weights[:len(rows)], len(rows), rows, w.vectors)
			w.runs(len(rows))
			rows = rows[:0]
		}
	}
	p.rows.k.scale(acc, float32(1/sum))
	return float32(float64(top) + math.Log(sum))
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// mergeTask merges a call's rows, mergeRows of them a part.
type mergeTask struct {
	in                        partials
	out                       vectors
	outLSE                    []float32 // nil: not wanted
	parts, tokens, heads, dim int
}

const mergeRows = 32

// Merge combines attention results over disjoint sets of keys.
func (be *Backend) Merge(s backend.Stream, p backend.MergeParams[*Buffer]) error {
	ops, err := be.begin("merge", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Merge(&p); err != nil || p.Tokens == 0 {
		return err // without rows there is no bound on their dims
	}
	c := be.pool.borrow(extent{acc: p.Dim, vectors: p.Dim})
	defer giveBack(be.pool, c, &c.merge)
	t := &c.merge
	*t = mergeTask{
		in:  partials{rows: vectorsOf(backend.Dense(p.In), p.Parts*p.Tokens*p.Heads, p.Dim), lse: view[float32](p.LSE), given: true},
		out: vectorsOf(p.Out, p.Tokens, p.Heads*p.Dim), parts: p.Parts, tokens: p.Tokens, heads: p.Heads, dim: p.Dim,
	}
	if p.OutLSE.Set {
		t.outLSE = view[float32](p.OutLSE.Buf)
	}
	rows := p.Tokens * p.Heads
	return be.pool.run(t, (rows+mergeRows-1)/mergeRows, rows*p.Parts*p.Dim, c.scratch)
}

func (t *mergeTask) part(i int, w *scratch) {
	acc := w.acc[:t.dim]
	rows := t.tokens * t.heads
	for r := i * mergeRows; r < min((i+1)*mergeRows, rows); r++ {
		lse := t.in.merge(acc, r, rows, t.parts, w)
		t.out.store(r/t.heads, r%t.heads*t.dim, acc)
		if t.outLSE != nil {
			t.outLSE[r] = lse
		}
	}
	w.forget()
}
