package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

var negInf = float32(math.Inf(-1))

// part runs one item for the KV heads that walk together: part i is of head i/items, and has
// something to do if that is the first of them. A head's items follow one another, so that
// the tiles of a prompt find its keys in the cache.
func (a *attention) part(i int, w *scratch) {
	items := len(a.items) / itemWords
	var it item
	it.decode(a.items[i%items*itemWords:])
	head, heads := i/items, a.together((it.q1-it.q0)*a.group)
	if head%heads != 0 {
		return
	}
	var t tile
	a.lay(&t, &it, head, min(heads, a.kvHeads-head), w)
	a.load(&t, w)
	done := false
	if a.tall(&t) {
		done = a.walkTall(&t, &it, w)
	} else {
		done = a.walk(&t, &it, a.k, w)
	}
	if !done {
		a.walk(&t, &it, a.k.withExact, w) // something was not finite
	}
	w.forget()
	a.finish(&t, &it, w)
}

// walk is softmax over an item's keys, chunk by chunk, online: the largest score so far, the
// sum and the output are rescaled when it grows. It is false, and the result of no use,
// where the result is not finite and k is not exact about that.
func (a *attention) walk(t *tile, it *item, k *kernels, w *scratch) bool {
	acc, kept, r := w.start(t.heads*t.rows, a.vDim), a.keptOf(it), &w.route
	r.begin(a, t, it)
	if a.small && r.chunk(0).n > 0 && r.chunk(1).n == 0 && kept.weights == nil {
		a.walkShort(t, acc, k, w)
		return k.exact || k.finite(acc)
	}
	scores := w.scores[:t.rows*chunk]
	for c := 0; r.chunk(0).n > 0; c++ {
		for h := range t.heads {
			from, to := h*t.rows, (h+1)*t.rows
			l, shrink := r.chunk(0), w.shrink[:t.rows]
			r.rows(a, t, h, w)
			by := a.score(t, h, l, scores, k, w)
			k.weigh(scores, chunk, l.key%chunk+l.n, by, w.top[from:to], shrink, w.sum[from:to])
			a.mix(acc[from*a.vDim:to*a.vDim], shrink, scores[l.key%chunk:], k, w)
			if kept.weights != nil {
				kept.keep(t, h, c, scores[l.key%chunk:], l.n, w)
			}
		}
		r.advance(a, t)
	}
	return k.exact || k.finite(acc)
}

// walkShort is a walk of a small call along a single chunk, which there is nothing to fetch ahead
// for: its heads score, weigh and mix one after another, and weigh together.
func (a *attention) walkShort(t *tile, acc []float32, k *kernels, w *scratch) {
	l, by := w.route.chunk(0), float32(1)
	keys, values := w.runs(len(l.runs))
	stride, before := t.rows*chunk, l.key%chunk
	for h := range t.heads {
		for i, run := range l.runs {
			a.keys.find(&keys[i], run.block, t.head+h, run.offset, run.n)
		}
		by = a.score(t, h, l, w.scores[h*stride:][:stride], k, w)
	}
	all := t.heads * t.rows
	k.weigh(w.scores[:all*chunk], chunk, before+l.n, by, w.top[:all], w.shrink[:all], w.sum[:all])
	for h := range t.heads {
		for i, run := range l.runs {
			a.values.find(&values[i], run.block, t.head+h, run.offset, run.n)
		}
		from, to := h*t.rows, (h+1)*t.rows
		a.mix(acc[from*a.vDim:to*a.vDim], w.shrink[from:to], w.scores[h*stride+before:], k, w)
	}
}

// start clears the outputs of rows of dim elements, and what is known of their scores.
func (w *scratch) start(rows, dim int) (acc []float32) {
	acc = w.acc[:rows*dim]
	clear(acc)
	clear(w.sum[:rows])
	for r := range rows {
		w.top[r] = negInf
	}
	return acc
}

// score sets row r of scores, of stride chunk, to the scores of head h of a tile for the keys
// of a chunk, which are w.keys; times the factor that it returns they are final: scaled, capped, biased, and −∞
// where the row does not see the key. A key's place among the scores is that of its position, so
// that the order in which weights are added up does not depend on where the tile's keys begin.
func (a *attention) score(t *tile, h int, l *walkChunk, scores []float32, k *kernels, w *scratch) (by float32) {
	before := l.key % chunk
	if a.int8Query {
		k.scoreInt8[a.keys.dt](scores[before:], chunk, a.queries(t, w, h).rounded, w.keys, &w.integers)
	} else {
		n := t.rows * a.keys.dim
		k.score[a.keys.dt](scores[before:], chunk, w.q[h*n:][:n], w.keys, w.vectors)
	}
	for r := range t.rows {
		for j := range before {
			scores[r*chunk+j] = negInf
		}
	}
	return a.settle(t, t.head+h, l.key, l.n, matrix{data: scores[before:], stride: chunk})
}

// mix adds w.values, times their weights, to rows of acc.
func (a *attention) mix(acc, shrink, weights []float32, k *kernels, w *scratch) {
	mix := k.mix[a.values.dt]
	if rounded := k.mixInt8[a.values.dt]; a.int8Query && rounded != nil {
		rounded(acc, shrink, weights, chunk, w.values, w.vectors, mix)
	} else {
		mix(acc, shrink, weights, chunk, w.values, w.vectors)
	}
}

// settle makes the scores of a tile's rows for n keys from key on final, but for the factor
// that it returns.
func (a *attention) settle(t *tile, head, key, n int, scores matrix) (by float32) {
	shaped := a.softCap > 0 || a.slopes != nil
	all := key >= t.seen.Lo && key+n <= t.seen.Hi || key >= t.seen.First && key+n <= t.seen.Sinks // see them
	if all && !shaped {
		return a.scale
	}
	if t.shown != nil {
		a.settleShown(t, head, key, n, scores, all)
	} else {
		for r := range t.rows {
			q, qHead := a.row(t, head, r)
			row := scores.data[r*scores.stride:][:n]
			if shaped {
				a.shape(q.ctx-q.n+q.number, qHead, key, row)
			}
			if !all {
				hide(row, key, a.sees(&q))
			}
		}
	}
	if shaped {
		return 1
	}
	return a.scale
}

// shape scales, caps and biases the scores of a query at a position for keys from key on.
func (a *attention) shape(position, qHead, key int, row []float32) {
	if limit := a.softCap; limit > 0 {
		a.k.softcap(row, a.scale, limit)
	} else {
		scale(row, a.scale)
	}
	if a.slopes != nil {
		slope, distance := a.slopes[qHead], key-position
		for j := range row {
			row[j] += slope * float32(distance+j)
		}
	}
}

// hide sets the scores of keys from key on that are not seen to −∞.
func hide(row []float32, key int, see plan.Keys) {
	place := func(position int) int { return min(max(position-key, 0), len(row)) }
	for _, part := range [][]float32{row[:place(see.First)], row[place(see.Sinks):place(see.Lo)], row[place(see.Hi):]} {
		for j := range part {
			part[j] = negInf
		}
	}
}
