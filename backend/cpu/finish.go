package cpu

import "math"

// finish normalises row r of a tile's heads and hands it on: to the output, or to the
// workspace where other parts have the rest of the keys.
func (a *attention) finish(t *tile, it item, r int, w *scratch) {
	token, head, query := a.row(t, t.head+r/t.rows, r%t.rows)
	acc, top, sum := w.acc[r*a.vDim:][:a.vDim], w.top[r], w.sum[r]
	shrink := 1.0
	if a.sinks != nil && a.sinks[head] != negInf && a.takesSink(t, it, query) {
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
		a.emit(token, head, acc, lse)
		return
	}
	row := it.base + (it.part*(it.q1-it.q0)+token-t.first-it.q0)*a.qHeads + head
	a.split.rows.store(row, 0, acc)
	a.split.lse[row] = lse
}

// takesSink reports whether it is this part that counts a query's sink logit: the one with
// the last key that the query sees, as which part is the first depends on its tile.
func (a *attention) takesSink(t *tile, it item, query int) bool {
	end := a.see.Of(t.ctx, t.n, query, query+1).Hi
	if end <= it.k0 {
		return end == 0 && it.part == 0 // sees nothing
	}
	return end <= it.k1
}

// emit writes a final row.
func (a *attention) emit(token, head int, row []float32, lse float32) {
	a.out.store(token, head*a.vDim, row)
	if a.lse != nil {
		a.lse[token*a.qHeads+head] = lse
	}
	if a.finalLSE != nil {
		a.finalLSE[token*a.qHeads+head] = lse
	}
}

// combining merges the rows of the tiles whose context is split: part i is item i,
// which does it for its tile if it is the first of several.
type combining struct{ *attention }

func (c combining) part(i int, w *scratch) {
	it := decodeItem(c.items[i*itemWords:])
	if it.part != 0 || it.parts < 2 {
		return
	}
	first, _ := c.tokens(it.seq)
	rows := (it.q1 - it.q0) * c.qHeads
	acc, row := w.acc[:c.vDim], w.vectors[:c.vDim]
	for r := range rows {
		lse := c.split.merge(acc, row, it.base+r, rows, it.parts)
		c.emit(first+it.q0+r/c.qHeads, r%c.qHeads, acc, lse)
	}
}
