package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// panel is how many keys a tall tile takes at a time: as float32 of dim 128, and turned on
// their side, they stay in a first-level cache while all rows meet them.
const panel = chunk

// tall reports whether a tile's rows meet the keys in products of matrices, which need more
// rows than a few to pay for laying out the keys.
func (a *attention) tall(t *tile) bool {
	return a.k.gemm != nil && !a.fixed && (t.rows > fewRows || a.latentTall(t)) && !a.int8Query && a.keys.dim%16 == 0 && a.vDim%16 == 0
}

// walkTall is walk for a tall tile, which is of one head: over panels of keys, each as
// float32 once for all rows.
func (a *attention) walkTall(t *tile, it *item, w *scratch) bool {
	acc, kept := w.start(t.rows, a.vDim), a.keptOf(it)
	for c, key := 0, t.keys.From(it.k0); key < it.k1; c++ {
		n := a.cut(key, it.k1, panel)
		if a.latent {
			a.stepLatent(t, key, n, a.ahead(t, it, key+n), w)
		} else {
			a.stepTall(t, key, n, w)
		}
		if kept.weights != nil {
			kept.keep(t, 0, c, w.scores, n, w)
		}
		key = t.keys.From(key + n)
	}
	return a.k.finite(acc)
}

// stepTall walks a panel's n keys from key on.
func (a *attention) stepTall(t *tile, key, n int, w *scratch) {
	dim, rows := a.keys.dim, t.rows
	scores := matrix{data: w.scores, rows: rows, cols: (n + 15) &^ 15, stride: panel}
	keys := matrix{data: w.panel, rows: dim, cols: scores.cols, stride: panel}
	a.k.transpose(keys, a.padded(t, key, n, w.vectors))
	a.k.gemm(scores, nil, matrix{data: w.q, rows: rows, cols: dim, stride: dim}, keys)
	by := a.settle(t, t.head, key, n, scores)

	shrink := w.shrink[:rows]
	a.k.weigh(scores.data, panel, n, by, w.top[:rows], shrink, w.sum[:rows])
	scores.cols = n
	a.k.gemm(matrix{data: w.acc, rows: rows, cols: a.vDim, stride: a.vDim}, shrink, scores,
		matrix{data: a.plain(&a.values, t, key, n, w.vectors), rows: n, cols: a.vDim, stride: a.vDim})
}

// plain is n rows of a plane from position key on as float32: in place where they are, or
// decoded to room.
func (a *attention) plain(p *plane, t *tile, key, n int, room []float32) []float32 {
	for done := 0; done < n; {
		block, offset, length := a.run(t, key+done, n-done)
		rows := p.at(block, t.head, offset, length)
		if length == n && p.dt == backend.F32 {
			return of[float32](rows.data)
		}
		a.k.decode[p.dt](room[done*p.dim:][:length*p.dim], rows)
		done += length
	}
	return room[:n*p.dim]
}

// padded is the keys of plain, with rows of zeros to a multiple of 16.
func (a *attention) padded(t *tile, key, n int, room []float32) matrix {
	dim := a.keys.dim
	m := matrix{data: a.plain(&a.keys, t, key, n, room), rows: (n + 15) &^ 15, cols: dim, stride: dim}
	if n < m.rows {
		copy(room, m.data)
		clear(room[n*dim : m.rows*dim])
		m.data = room
	}
	return m
}
