package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

var negInf = float32(math.Inf(-1))

// tile is queries [q0, q1) of a sequence and one KV head: their rows, the group's
// heads of one token after another, walk the keys together.
type tile struct {
	seq, head, q0, q1 int
	first             int // token of the sequence's query 0
	ctx, n            int // tokens and queries of the sequence
	rows              int
	table             blockTable
	keys              plan.Keys // of all rows together
}

func (a *attention) tile(seq, q0, q1, head int) tile {
	t := tile{seq: seq, head: head, q0: q0, q1: q1, ctx: int(a.lens[seq]), rows: (q1 - q0) * a.group, table: tableOf(&a.p.Batch, seq)}
	t.first, t.n = a.queries(seq)
	t.keys = a.see.Of(t.ctx, t.n, q0, q1)
	return t
}

// row is the token, the query head and the query's number of a row.
func (a *attention) row(t *tile, r int) (token, head, query int) {
	query = t.q0 + r/a.group
	return t.first + query, t.head*a.group + r%a.group, query
}

// queries is a tile's query rows.
type queries struct {
	rows    []float32
	rounded stored // as Int8, where the call rounds them
}

// load decodes the tile's queries.
func (a *attention) load(t *tile, w *scratch) queries {
	width := a.group * a.keys.dim
	q := queries{rows: w.q[:t.rows*a.keys.dim]}
	for i := range t.q1 - t.q0 {
		a.q.load(q.rows[i*width:][:width], t.first+t.q0+i, t.head*width)
	}
	if a.p.Int8Query {
		q.rounded = stored{dt: backend.Int8, dim: a.keys.dim, data: w.rounded[:len(q.rows)], scales: w.steps[:t.rows]}
		for i := range t.rows {
			row := q.rounded.row(i)
			if !encode[row.dt](row, q.rows[i*row.dim:][:row.dim], false) {
				row.spoil()
			}
		}
	}
	return q
}

// run is the keys from position key on that lie in one block, at most n.
func (a *attention) run(t *tile, key, n int) (block, offset, length int) {
	offset = key % a.keys.block
	return t.table.at(key / a.keys.block), offset, min(n, a.keys.block-offset)
}

// score sets row r of scores, of stride chunk, to the final scores of keys
// [key, key+n): scaled, capped, biased, and −∞ where the row does not see the key.
func (a *attention) score(t *tile, key, n int, q *queries, scores []float32, w *scratch) {
	for done := 0; done < n; {
		block, offset, length := a.run(t, key+done, n-done)
		keys := a.keys.at(block, t.head, offset, length)
		if a.p.Int8Query {
			scoreInt8[keys.dt](scores[done:], chunk, q.rounded, keys, &w.integers)
		} else {
			score[keys.dt](scores[done:], chunk, q.rows, keys, w.vectors)
		}
		done += length
	}
	for r := range t.rows {
		_, head, query := a.row(t, r)
		row := scores[r*chunk:][:n]
		scale(row, a.p.Scale)
		if limit := float64(a.p.Mask.SoftCap); limit > 0 {
			for j, s := range row {
				row[j] = float32(limit * math.Tanh(float64(s)/limit))
			}
		}
		if a.slopes != nil {
			slope, distance := a.slopes[head], key-(t.ctx-t.n+query)
			for j := range row {
				row[j] += slope * float32(distance+j)
			}
		}
		if see := a.see.Of(t.ctx, t.n, query, query+1); key < see.Lo || key+n > see.Hi {
			for j := range row {
				if !see.Has(key + j) {
					row[j] = negInf
				}
			}
		}
	}
}

// part runs one item for one KV head: softmax over chunks of keys, online (the
// largest score so far, the sum and the output are rescaled when it grows).
func (a *attention) part(i int, w *scratch) {
	it := decodeItem(a.items[i/a.kvHeads*itemWords:])
	t := a.tile(it.seq, it.q0, it.q1, i%a.kvHeads)
	q := a.load(&t, w)
	acc, top, sum := w.acc[:t.rows*a.vDim], w.top[:t.rows], w.sum[:t.rows]
	scores := w.scores[:t.rows*chunk]
	clear(acc)
	clear(sum)
	for r := range top {
		top[r] = negInf
	}
	for key := t.keys.From(it.k0); key < it.k1; {
		end := min(key-key%chunk+chunk, it.k1)
		if key < t.keys.Sinks {
			end = min(end, t.keys.Sinks)
		}
		n := end - key
		a.score(&t, key, n, &q, scores, w)
		for r := range t.rows {
			top[r] = weigh(scores[r*chunk:][:n], top[r], &sum[r], acc[r*a.vDim:][:a.vDim])
		}
		for done := 0; done < n; {
			block, offset, length := a.run(&t, key+done, n-done)
			mix[a.values.dt](acc, scores[done:], chunk, a.values.at(block, t.head, offset, length), w.vectors)
			done += length
		}
		key = t.keys.From(end)
	}
	for r := range t.rows {
		a.finish(&t, it, r, acc[r*a.vDim:][:a.vDim], top[r], sum[r])
	}
}

// weigh turns a row's scores into weights relative to the largest score so far,
// which it returns, after rescaling what was summed up relative to an older one.
func weigh(scores []float32, top float32, sum *float64, acc []float32) float32 {
	old := top
	for _, s := range scores {
		top = max(top, s) // NaN if either is, so that bad input shows
	}
	if top == negInf {
		clear(scores)
		return top
	}
	if *sum != 0 && top != old {
		shrink := math.Exp(float64(old) - float64(top))
		*sum *= shrink
		scale(acc, float32(shrink))
	}
	*sum += exponentials(scores, top)
	return top
}

// finish normalises a row and hands it on: to the output, or to the workspace
// where other parts have the rest of the keys. Part 0 counts the sink logit.
func (a *attention) finish(t *tile, it item, r int, acc []float32, top float32, sum float64) {
	token, head, _ := a.row(t, r)
	shrink := 1.0
	if a.sinks != nil && it.part == 0 && a.sinks[head] != negInf {
		logit := a.sinks[head]
		high := max(top, logit)
		shrink = math.Exp(float64(top) - float64(high))
		top, sum = high, sum*shrink+math.Exp(float64(logit)-float64(high))
	}
	lse := negInf
	if sum != 0 {
		scale(acc, float32(shrink/sum))
		lse = float32(float64(top) + math.Log(sum))
	}
	if it.parts == 1 {
		a.emit(token, head, acc, lse)
		return
	}
	row := it.base + (it.part*(it.q1-it.q0)+token-t.first-it.q0)*a.qHeads + head
	a.split.rows.store(row, 0, acc)
	a.split.lse[row] = lse
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
	first, _ := c.queries(it.seq)
	rows := (it.q1 - it.q0) * c.qHeads
	acc, row := w.acc[:c.vDim], w.vectors[:c.vDim]
	for r := range rows {
		lse := c.split.merge(acc, row, it.base+r, rows, it.parts)
		c.emit(first+it.q0+r/c.qHeads, r%c.qHeads, acc, lse)
	}
}
