package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

const (
	itemWords = 10
	// manySeqs is the sequence of an item of several: its queries are those of the plan's list (see listed).
	manySeqs = -1
)

// item is a unit of work: queries [q0, q1) of a sequence, all heads, over its keys
// at [k0, k1). An item of several parts writes its rows from partial row
// base + part*(its rows) on.
type item struct {
	seq, q0, q1, k0, k1 int
	base, part, parts   int
	kept                int // 1 + the unit that its kept weights begin at, 0: none
	chunks              int // that it keeps weights of
}

func (it item) encode(work []uint32) []uint32 {
	return append(work, uint32(it.seq), uint32(it.q0), uint32(it.q1), uint32(it.k0), uint32(it.k1),
		uint32(it.base), uint32(it.part), uint32(it.parts), uint32(it.kept), uint32(it.chunks))
}

// decode sets it to the item that work begins with.
func (it *item) decode(work []uint32) {
	w := work[:itemWords]
	it.seq, it.q0, it.q1, it.k0, it.k1 = int(w[0]), int(w[1]), int(w[2]), int(w[3]), int(w[4])
	it.base, it.part, it.parts, it.kept, it.chunks = int(w[5]), int(w[6]), int(w[7]), int(w[8]), int(w[9])
}

// many reports whether the item is of several sequences.
func (it *item) many() bool { return uint32(it.seq) == math.MaxUint32 }

// within reports whether an item of a call with that many queries and that
// context in its sequence stays inside them and the partial rows.
func (it *item) within(queries, ctx int, l *workload, partialRows, units int) bool {
	if !it.fits(queries, l, units) || it.k1 > ctx {
		return false
	}
	rows, ok := backend.Mul(it.parts, it.q1-it.q0, l.qHeads)
	return it.parts == 1 || ok && it.base >= 0 && it.base <= partialRows && rows <= partialRows-it.base
}

// fits is what within asks of an item of one sequence or of several.
func (it *item) fits(queries int, l *workload, units int) bool {
	if it.q0 < 0 || it.q0 >= it.q1 || it.q1 > queries || it.q1-it.q0 > l.tileTokens() || it.k0 < 0 || it.part < 0 || it.part >= it.parts {
		return false
	}
	if it.kept != 0 {
		size, ok := backend.Mul(it.chunks, it.q1-it.q0, l.qHeads, chunk+1)
		if !ok || it.kept < 0 || it.kept-1 > units || max(size-1, 0)/keptUnit >= units-it.kept+1 {
			return false
		}
	}
	return true
}
