package cpu

import "math"

// weight is what a step's tiles cost, in pairs of a query row and a key.
type weight struct {
	total   float64 // over all KV heads
	tiles   int     // before contexts are cut
	largest int     // of one KV head of a tile whose heads may walk together
	// of the last tile: its keys, and the rows of one KV head.
	lastKeys, lastRows int
}

// add counts a tile with this many rows for each KV head.
func (w *weight) add(keys, rows, kvHeads int) {
	w.total += float64(keys) * float64(rows*kvHeads)
	w.tiles++
	w.lastKeys, w.lastRows = keys, rows
	if rows <= fewRows {
		w.largest = max(w.largest, keys*rows)
	}
}

// halfShare is half of what each worker has to do.
func (w *weight) halfShare(threads int) float64 { return w.total / float64(2*threads) }

// divide decides how many KV heads walk side by side, and into how many parts the context of the only tile is cut, if there is only
// one. To divide heads costs next to nothing, where to cut a context takes partial results and their merge.
func (sp *splitter) divide() {
	sp.abreast = min(maxTogether, sp.load.kvHeads)
	switch {
	case sp.threads == 1:
		sp.cuts = 1
	case sp.tiles == 1 && !sp.fixed:
		sp.abreast, sp.cuts = sp.load.divideTile(sp.lastKeys, sp.lastRows, sp.threads)
	case sp.largest > 0: // as many as are half of a share, in groups of equal size
		groups := ceilDiv(sp.load.kvHeads, max(min(int(sp.halfShare(sp.threads)/float64(sp.largest)), sp.abreast), 1))
		sp.abreast = ceilDiv(sp.load.kvHeads, groups)
	}
}

// mergeKeys is the keys that take as long as the merge of a part's partial result.
const mergeKeys = 32

// divideTile is the division of a step's only tile with which the workers end first: they take pieces, all of about one size, and
// all wait for the last one. Of equal ones it is that with the fewest parts, and of these the one with the most heads side by side.
func (l *workload) divideTile(keys, rows, threads int) (abreast, parts int) {
	most, least := l.together(rows, maxTogether), math.Inf(1)
	enough := 1.02 * float64(l.kvHeads) * float64(keys) / float64(threads) // no other is better by more
	for n := 1; n == 1 || n <= min(3*threads, keys/minPart) && least > enough; n++ {
		cut, size := partsOfKeys(keys, n)
		for heads := most; heads >= 1; heads-- {
			groups := ceilDiv(l.kvHeads, heads)
			if n > 1 && groups*(n-1) >= 3*threads { // more pieces would gain little
				break
			}
			cost := float64(ceilDiv(groups*cut, threads)) * float64(heads) * float64(size)
			if cut > 1 {
				cost += float64(cut*mergeKeys) * float64(l.kvHeads) / float64(threads)
			}
			if cost < least {
				least, abreast, parts = cost, heads, cut
			}
		}
	}
	return abreast, parts
}

// partsOfKeys is the number of parts, n at most, that keys are cut into so that each has at least minPart of them, and the size of all but the last.
func partsOfKeys(keys, n int) (parts, size int) {
	if parts = min(n, keys/minPart); parts < 2 {
		return 1, keys
	}
	size = ceilDiv(ceilDiv(keys, parts), chunk) * chunk
	return ceilDiv(keys, size), size
}
