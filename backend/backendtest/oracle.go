package backendtest

import (
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/go-gl/mathgl/mgl64"
)

// visibility is which keys a query sees and how scores are changed, the host
// form of backend.Mask for one query head.
type visibility struct {
	scale              float64
	window, sinkTokens int
	chunk              int
	part               backend.Part
	recent, block      int     // block is the slots of the cache's
	softCap            float64 // 0: none
	slope              float64 // ALiBi
	sinkLogit          float64 // −∞: none
}

// viewer is a query: its position, which is negative where it lies before the start of the context,
// and its end. drafts is the first key of its sequence's tokens, depths are their positions, and
// bits is its row of backend.Ragged.Tree.
type viewer struct {
	pos, end, drafts int
	depths           []int
	bits             []uint32
}

// draft is the number of a key among the drafts, −1 where it is none to the query.
func (q viewer) draft(key int) int {
	for _, word := range q.bits {
		if word != 0 {
			return max(key-q.drafts, -1)
		}
	}
	return -1
}

// position is that of a key.
func (q viewer) position(key int) int {
	if j := q.draft(key); j >= 0 {
		return q.depths[j]
	}
	return key
}

// sees reports whether a query sees the key at position key. The doc comments of backend.Mask and
// backend.Ragged are all there is to it.
func (v visibility) sees(q viewer, key int) bool {
	if j := q.draft(key); j >= 0 {
		return v.part != backend.OlderKeys && j/32 < len(q.bits) && q.bits[j/32]>>(j%32)&1 == 1
	}
	switch {
	case key >= q.end,
		v.window > 0 && !(q.pos-key < v.window && key-q.pos < v.window || key < v.sinkTokens),
		v.chunk > 0 && math.Floor(float64(key)/float64(v.chunk)) != math.Floor(float64(q.pos)/float64(v.chunk)),
		v.part == backend.OlderKeys && key >= v.edge(q.pos),
		v.part == backend.ResidualKeys && key < v.edge(q.pos):
		return false
	}
	return true
}

// edge is where the recent keys of a query begin.
func (v visibility) edge(pos int) int {
	before := max(0, pos+1-v.recent)
	return before - before%v.block
}

// score is what the softmax sees of a dot product: scale, soft-cap, then ALiBi.
func (v visibility) score(dot float64, pos, key int) float64 {
	s := v.scale * dot
	if v.softCap > 0 {
		s = v.softCap * math.Tanh(s/v.softCap)
	}
	return s + v.slope*float64(key-pos)
}

// history is the keys and values of one sequence and KV head, a column a token.
type history struct{ keys, values *mgl64.MatMxN }

func newHistory(kDim, vDim, tokens int) history {
	h := history{mgl64.NewMatrix(kDim, tokens), mgl64.NewMatrix(vDim, tokens)}
	h.keys.Zero(kDim, tokens) // pooled memory is not zeroed
	h.values.Zero(vDim, tokens)
	return h
}

// set makes column i of m the values.
func set(m *mgl64.MatMxN, i int, values []float32) {
	for row, v := range values {
		m.Set(row, i, float64(v))
	}
}

// column is column i of m without a copy: mgl64 keeps columns together.
func column(m *mgl64.MatMxN, i int) *mgl64.VecN {
	rows := m.NumRows()
	var v mgl64.VecN
	v.SetBackingSlice(m.Raw()[i*rows : (i+1)*rows : (i+1)*rows])
	return &v
}

// attended is the attention of one query and head: softmax(q·K)·V, the log of the
// softmax's denominator, and the probability of each key.
type attended struct {
	out  *mgl64.VecN
	lse  float64
	prob []float64
}

// attend is the reference. Only visible keys are looked at, one after another: a
// product over the whole context would be simpler and too slow where it is long.
func attend(q *mgl64.VecN, at viewer, h history, v visibility) attended {
	tokens := h.keys.NumCols()
	a := attended{out: new(mgl64.VecN), prob: make([]float64, tokens)}
	a.out.Zero(h.values.NumRows())

	top := v.sinkLogit
	for key := range tokens {
		a.prob[key] = math.Inf(-1)
		if v.sees(at, key) {
			a.prob[key] = v.score(q.Dot(column(h.keys, key)), at.pos, at.position(key))
			top = max(top, a.prob[key])
		}
	}
	if math.IsInf(top, -1) { // nothing to attend to
		clear(a.prob)
		a.lse = top
		return a
	}
	sum := math.Exp(v.sinkLogit - top)
	for _, s := range a.prob {
		sum += math.Exp(s - top)
	}
	a.lse = top + math.Log(sum)
	weighted := mgl64.NewVecN(h.values.NumRows())
	for key, s := range a.prob {
		a.prob[key] = math.Exp(s - a.lse)
		if a.prob[key] > 0 {
			column(h.values, key).Mul(weighted, a.prob[key])
			a.out.Add(a.out, weighted)
		}
	}
	return a
}

// partial is one result of attention over a part of the keys.
type partial struct {
	out *mgl64.VecN
	lse float64
}

// empty says that a partial result is of no keys: its log-sum-exp is infinite. The sign
// tells kernels apart, no more.
func (p partial) empty() bool { return math.IsInf(p.lse, 0) }

// merge is the attention over all keys of some partial results: each counts as
// much as its softmax's denominator. A log-sum-exp of NaN makes all of it NaN.
func merge(parts []partial, dim int) partial {
	sum := partial{new(mgl64.VecN), math.Inf(-1)}
	sum.out.Zero(dim)
	parts = slices.DeleteFunc(slices.Clone(parts), partial.empty)
	for _, p := range parts {
		sum.lse = max(sum.lse, p.lse)
	}
	if math.IsInf(sum.lse, -1) {
		return sum
	}
	top, total := sum.lse, 0.0
	for _, p := range parts {
		total += math.Exp(p.lse - top)
	}
	sum.lse = top + math.Log(total)
	weighted := mgl64.NewVecN(dim)
	for _, p := range parts {
		if weight := math.Exp(p.lse - sum.lse); weight != 0 {
			p.out.Mul(weighted, weight)
			sum.out.Add(sum.out, weighted)
		}
	}
	return sum
}

// vector is values as mgl64 counts with them.
func vector(values []float32) *mgl64.VecN { return mgl64.NewVecNFromData(widen(values)) }
