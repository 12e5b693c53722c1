package cpu

import "unsafe"

// latentRows is the fewest rows of a tile of a latent cache that meet the keys in products of matrices: a panel is laid
// out once for both products, and there is much to multiply.
const latentRows = 8

// latentDepth is how many elements of keys that were turned on their side are multiplied at once: they stay in a
// first-level cache while all rows meet them.
const latentDepth = 144

// latentTall reports whether that is so for a tile.
func (a *attention) latentTall(t *tile) bool {
	return a.latent && t.heads == 1 && t.rows >= latentRows
}

// ahead is a panel of keys that comes next, and is fetched while another one is multiplied.
type ahead struct{ key, n, done int }

// ahead is the panel after a key.
func (a *attention) ahead(t *tile, it *item, key int) (next ahead) {
	if next.key = t.keys.From(key); next.key < it.k1 {
		next.n = a.cut(next.key, it.k1, panel)
	}
	return next
}

// fetchPart asks for the next of so many parts of a panel.
func (a *attention) fetchPart(t *tile, next *ahead, parts int, w *scratch) {
	if a.k.fetch == nil || next.done == next.n {
		return
	}
	runs := w.values[:0]
	end := min(next.done+ceilDiv(next.n, parts), next.n)
	for next.done < end {
		block, offset, n := a.run(t, next.key+next.done, end-next.done)
		first := &a.keys.mem[a.keys.number(block, t.head, offset)*a.keys.row]
		runs = append(runs, stored{n: n, wanted: (*uint32)(unsafe.Pointer(first))})
		next.done += n
	}
	w.runs(len(runs))
	a.k.fetch(runs, ceilDiv(a.keys.row, 4))
}

// stepLatent walks a panel's n keys from key on: it is laid out once, as rows that are values, too, and on its side. The
// products are those of stepTall, to the bit.
func (a *attention) stepLatent(t *tile, key, n int, next ahead, w *scratch) {
	dim, rows := a.keys.dim, t.rows
	scores := matrix{data: w.scores, rows: rows, cols: (n + 15) &^ 15, stride: panel}
	plain := a.padded(t, key, n, w.vectors)
	a.k.transpose(matrix{data: w.panel, rows: dim, cols: scores.cols, stride: panel}, plain)
	parts := ceilDiv(dim, latentDepth) + ceilDiv(a.vDim, panel)
	shrink := w.shrink[:rows]
	for r := range shrink {
		shrink[r] = 1
	}
	for from, by := 0, []float32(nil); from < dim; from, by = from+latentDepth, shrink {
		depth := min(latentDepth, dim-from)
		a.fetchPart(t, &next, parts, w)
		a.k.gemm(scores, by, matrix{data: w.q[from:], rows: rows, cols: depth, stride: dim},
			matrix{data: w.panel[from*panel:], rows: depth, cols: scores.cols, stride: panel})
	}
	by := a.settle(t, t.head, key, n, scores)
	a.k.weigh(scores.data, panel, n, by, w.top[:rows], shrink, w.sum[:rows])
	scores.cols = n
	for from, cols := 0, 0; from < a.vDim; from += cols {
		cols = min(a.vDim-from, panel)
		a.fetchPart(t, &next, parts, w)
		a.k.gemm(matrix{data: w.acc[from:], rows: rows, cols: cols, stride: a.vDim}, shrink, scores,
			matrix{data: plain.data[from:], rows: n, cols: cols, stride: dim})
	}
}
