package cpu

import "math"

// finish normalises the rows of a tile's heads and hands them on: to the output, or to the
// workspace where other parts have the rest of the keys. Those of a single query lie side by side
// in the output.
func (a *attention) finish(t *tile, it *item, w *scratch) {
	r, single := 0, it.parts == 1 && t.q1-t.q0 == 1
	for first := t.head * a.group; first < (t.head+t.heads)*a.group; first += a.group {
		for i := range t.q1 - t.q0 {
			q, partial := a.query(t, i), 0
			if it.parts > 1 {
				partial = a.partialRow(t, it, i)
			}
			for head := first; head < first+a.group; head++ {
				a.finishRow(it, r, &q, head, partial+head, !single, w)
				r++
			}
		}
	}
	if single {
		a.out.store(t.first+t.q0, t.head*a.group*a.vDim, w.acc[:r*a.vDim])
	}
}

// partialRow is the partial row of head 0 of query i of an item that is a part of its rows' keys.
func (a *attention) partialRow(t *tile, it *item, i int) int {
	if !t.many {
		return it.base + (it.part*(it.q1-it.q0)+i)*a.qHeads
	}
	m := a.listedAt(t.q0 + i)
	_, n := a.tokensOf(m.seq)
	return m.row + it.part*n*a.qHeads
}

// finishRow is finish for row r, of a query and one of its heads, which is stored where it is
// asked for, or is a partial row.
func (a *attention) finishRow(it *item, r int, q *query, head, partial int, store bool, w *scratch) {
	acc, top, sum := w.acc[r*a.vDim:][:a.vDim], w.top[r], w.sum[r]
	shrink := 1.0
	if a.sinks != nil && a.sinks[head] != negInf && a.takesSink(it, q) {
		logit := a.sinks[head]
		high := max(top, logit)
		shrink = math.Exp(float64(top) - float64(high))
		top, sum = high, sum*shrink+math.Exp(float64(logit)-float64(high))
	}
	lse := negInf
	if sum != 0 {
		a.k.scale(acc, float32(shrink/sum))
		if it.parts > 1 || a.lse != nil || a.finalLSE != nil {
			lse = float32(float64(top) + math.Log(sum))
		}
	}
	if it.parts == 1 {
		if store {
			a.out.store(q.token, head*a.vDim, acc)
		}
		a.emit(q.token, head, lse)
		return
	}
	a.split.rows.store(partial, 0, acc)
	a.split.lse[partial] = lse
}

// takesSink reports whether it is this part that counts a query's sink logit: the one with
// the last key that the query sees, as which part is the first depends on its tile.
func (a *attention) takesSink(it *item, q *query) bool {
	end := a.lastSeen(q)
	if end <= it.k0 {
		return end == 0 && it.part == 0 // sees nothing
	}
	return end <= it.k1
}

// emit writes what is known of a final row beside it.
func (a *attention) emit(token, head int, lse float32) {
	if a.lse != nil {
		a.lse[token*a.qHeads+head] = lse
	}
	if a.finalLSE != nil {
		a.finalLSE[token*a.qHeads+head] = lse
	}
}

// combining merges the rows of the tiles whose context is split: part i is item i,
// which does it for its tile if it is the last of several. Those of several sequences come before that.
type combining struct{ *attention }

func (c combining) part(i int, w *scratch) {
	var it item
	it.decode(c.items[i*itemWords:])
	if it.many() || it.part != it.parts-1 || it.parts < 2 {
		return
	}
	first, _ := c.tokensOf(it.seq)
	rows := (it.q1 - it.q0) * c.qHeads
	acc := w.acc[:c.vDim]
	for r := range rows {
		lse := c.split.merge(acc, it.base+r, rows, it.parts, w)
		token, head := first+it.q0+r/c.qHeads, r%c.qHeads
		c.out.store(token, head*c.vDim, acc)
		c.emit(token, head, lse)
	}
	w.forget()
}
