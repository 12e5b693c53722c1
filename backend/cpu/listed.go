package cpu

import (
	"bytes"

	"github.com/ferrumkv/ferrumkv/backend"
)

const listedWords = 3

// listed is a query of an item of several sequences, as the list of a plan has it. What its first
// head gets goes to partial row row + part*(its sequence's rows), where those of its sequence's own
// items are: it is a part of them.
type listed struct{ seq, query, row int }

// listedAt is query i of the list.
func (a *attention) listedAt(i int) listed {
	w := a.listed[i*listedWords:][:listedWords]
	return listed{int(w[0]), int(w[1]), int(w[2])}
}

// checkMany checks an item of several sequences: its queries are the call's, see all of its
// keys but for a window, and have those in the same blocks.
func (a *attention) checkMany(i int, it *item, partialRows, units int) error {
	if !it.fits(len(a.listed)/listedWords, &a.workload, units) {
		return a.wrong("work: item %d is out of range", i)
	}
	var first []uint32
	for q := it.q0; q < it.q1; q++ {
		m := a.listedAt(q)
		if m.seq < 0 || m.seq >= len(a.lens) {
			return a.wrong("work: item %d is out of range", i)
		}
		_, n := a.tokensOf(m.seq)
		end := int(a.lens[m.seq])
		if !a.viewed {
			end -= n
		}
		before, ok := backend.Mul(it.part, n, a.qHeads)
		if !ok || m.query < 0 || m.query >= n || it.k1 > end || m.row < 0 || m.row > partialRows ||
			before > partialRows-m.row || a.qHeads > partialRows-m.row-before {
			return a.wrong("work: item %d is out of range", i)
		}
		if blocks := a.blocksOf(m.seq, it); q == it.q0 {
			first = blocks
		} else if len(blocks) != len(first) || !bytes.Equal(backend.BytesOf(blocks), backend.BytesOf(first)) {
			return a.wrong("block table: was planned as one that begins in sequence %d as in sequence %d, and does not; call PlanAttend with this table", m.seq, a.listedAt(it.q0).seq)
		}
	}
	return nil
}

// blocksOf is the entries of a sequence's table for the keys of an item; one that is in no table is
// in a block of its own.
func (a *attention) blocksOf(seq int, it *item) []uint32 {
	switch {
	case it.k1 <= it.k0:
		return nil
	case a.tables == nil:
		return []uint32{uint32(seq)}
	}
	return a.tables[seq*a.stride:][it.k0/a.block : (it.k1-1)/a.block+1]
}

// layMany is lay for an item of several sequences, whose keys are walked by the table of the first.
func (a *attention) layMany(t *tile, it *item, w *scratch) {
	t.many, t.table = true, a.table(a.listedAt(it.q0).seq)
	if !a.ordinary {
		a.show(t, w)
		it.k1 = min(it.k1, t.keys.Hi)
		return
	}
	for i := range it.q1 - it.q0 {
		q := a.query(t, i)
		sees := a.sees(&q)
		if i == 0 {
			t.keys, t.seen = sees, sees
		}
		t.keys, t.seen = t.keys.Or(sees), t.seen.And(sees)
	}
	it.k1 = min(it.k1, t.keys.Hi)
}
