package cpu

import (
	"math"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// kept is the weights that a walk found, for the attention scores: a chunk's are relative
// to the largest score up to then, which is kept too.
type kept struct {
	weights []float32 // [KV heads, chunks, rows, chunk]; nil: not kept
	tops    []float32 // [KV heads, chunks, rows]
	chunks  int
}

// keptSize is the elements of an item's kept weights.
func (l *workload) keptSize(it *item) int {
	return it.chunks * (it.q1 - it.q0) * l.qHeads * (chunk + 1)
}

// chunksOf is at most how many chunks that many keys are walked in: one more than they fill
// where they begin inside of one, and one more where sink tokens end. Recent ones of those may
// begin inside of a chunk, too.
func (l *workload) chunksOf(keys int) int {
	switch {
	case !l.see.Plain(l.viewed, l.treeWords): // of two runs both may
		return keys/chunk + 5
	case l.see.Part == backend.ResidualKeys:
		return keys/chunk + 4
	}
	return keys/chunk + 3
}

// keptOf is an item's place for them. A call for the mass alone has none.
func (a *attention) keptOf(it *item) kept {
	if it.kept == 0 || a.keptSpace == nil {
		return kept{}
	}
	space, n := a.keptSpace[(it.kept-1)*keptUnit:], it.chunks*(it.q1-it.q0)*a.qHeads
	return kept{weights: space[:n*chunk], tops: space[n*chunk:][:n], chunks: it.chunks}
}

// of is the weights and tops of a chunk for one KV head.
func (k *kept) of(head, c, rows int) (weights, tops []float32) {
	i := (head*k.chunks + c) * rows
	return k.weights[i*chunk:][:rows*chunk], k.tops[i:][:rows]
}

// keep takes over what a step left for head h of a tile: the n scores of each row.
func (k *kept) keep(t *tile, h, c int, scores []float32, n int, w *scratch) {
	weights, tops := k.of(t.head+h, c, t.rows)
	for r := range t.rows {
		copy(weights[r*chunk:][:n], scores[r*chunk:])
	}
	copy(tops, w.top[h*t.rows:])
}

// weighing adds the attention scores, now that the softmax denominators are known or given: from
// kept weights, or with a second walk over the keys. A slot may belong to several
// sequences, so work is not divided by sequence: part i has one KV head and the blocks
// of one shard, and adds to them in the order of the items.
type weighing struct{ *attention }

func (m weighing) part(i int, w *scratch) {
	head, shard := i%m.kvHeads, i/m.kvHeads
	var it item
	for work := m.items; len(work) > 0; work = work[itemWords:] {
		it.decode(work)
		var t tile
		m.lay(&t, &it, head, 1, w)
		m.weigh(&t, &it, shard, w)
	}
	w.forget()
}

// weigh adds what a tile's queries give to the keys in a shard's blocks.
func (m weighing) weigh(t *tile, it *item, shard int, w *scratch) {
	kept, scores, sums, loaded := m.keptOf(it), w.scores[:t.rows*chunk], w.vectors[:chunk], false
	for r := range t.rows {
		w.top[r] = float32(math.NaN()) // for which no factor is known
	}
	for c, key := 0, t.keys.From(it.k0); key < it.k1; c++ {
		n := m.cut(key, it.k1, chunk)
		m.expect(t, t.keys.From(key+n), it.k1, shard, w)
		fresh := true // the sums are not those of this chunk
		for done := 0; done < n; {
			block, offset, length := m.run(t, key+done, n-done)
			mass := m.mass[(block*m.kvHeads+t.head)*m.keys.block+offset:]
			switch {
			case block%m.shards != shard:
			case kept.weights != nil:
				if fresh {
					m.sum(t, &kept, c, sums, w)
					fresh = false
				}
				addRow(mass[:length], sums[done:])
			default:
				if !loaded {
					m.load(t, w)
					loaded = true
				}
				m.again(t, key+done, run{block, offset, length}, scores, w)
				for r := range t.rows {
					addRow(mass[:length], scores[r*chunk+(key+done)%chunk:])
				}
			}
			done += length
		}
		key = t.keys.From(key + n)
	}
}

// expect fetches the mass of a shard's keys in the chunk at position key.
func (m weighing) expect(t *tile, key, end, shard int, w *scratch) {
	if key >= end || m.k.fetch == nil {
		return
	}
	runs := w.values[:0]
	for n := m.cut(key, end, chunk); n > 0; {
		block, offset, length := m.run(t, key, n)
		if block%m.shards == shard {
			mass := &m.mass[(block*m.kvHeads+t.head)*m.keys.block+offset]
			runs = append(runs, stored{n: length, wanted: (*uint32)(unsafe.Pointer(mass))})
		}
		key, n = key+length, n-length
	}
	if w.runs(len(runs)); len(runs) > 0 {
		m.k.fetch(runs, 1)
	}
}

// sum sets sums to the rows' probabilities for each key of a chunk together.
func (m weighing) sum(t *tile, kept *kept, c int, sums []float32, w *scratch) {
	weights, tops := kept.of(t.head, c, t.rows)
	factors, known := w.shrink[:t.rows], w.top[:t.rows] // that make probabilities of weights, and for which tops
	for r, top := range tops {
		if top != known[r] {
			q, head := m.row(t, t.head, r)
			factors[r], known[r] = exp(top, m.finalLSE[q.token*m.qHeads+head]), top
		}
	}
	clear(sums)
	_, rows := w.runs(1)
	rows[0] = stored{dt: backend.F32, dim: chunk, n: t.rows, data: backend.BytesOf(weights)}
	m.k.mix[backend.F32](sums, noShrink[:1], factors, len(factors), rows, nil)
}

// again sets scores to the probabilities of the keys of a run, which begins at position key.
func (m weighing) again(t *tile, key int, keys run, scores []float32, w *scratch) {
	l := w.route.only(key, keys)
	w.route.rows(m.attention, t, 0, w)
	by := m.score(t, 0, l, scores, m.k, w)
	scores = scores[key%chunk:]
	for r := range t.rows {
		q, head := m.row(t, t.head, r)
		lse, row := m.finalLSE[q.token*m.qHeads+head], scores[r*chunk:][:l.n]
		if lse == negInf { // given for a query that gives nothing, whatever it sees
			clear(row)
			continue
		}
		for j, x := range row {
			row[j] = exp(x*by, lse)
		}
	}
}

func addRow(mass, row []float32) {
	row = row[:len(mass)]
	for j, p := range row {
		mass[j] += p
	}
}
