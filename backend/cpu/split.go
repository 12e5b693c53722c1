package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// splitter makes the items of a plan in two passes over the sequences: one that
// weighs them and one that splits them.
type splitter struct {
	load    workload
	places  plan.Places
	threads int
	fixed   bool // parts have fixedPart keys, however many threads there are
	weight

	abreast int // the most KV heads that walk side by side
	cuts    int // parts of the context of the only tile; 0: there are several

	work               []uint32
	items, parts, rows int
	units              int           // of kept weights
	sharing            *plan.Sharing // nil: nothing is read as one
}

// weigh adds the cost of a sequence, whose queries begin at token first.
func (sp *splitter) weigh(seq, first, ctx, n int) {
	step := sp.load.tileTokens()
	for q0 := 0; q0 < n; q0 += step {
		q1 := min(q0+step, n)
		sp.add(sp.keysOf(seq, first, ctx, n, q0, q1).Count(), (q1-q0)*sp.group(), sp.load.kvHeads)
	}
}

// keysOf is what queries [q0, q1) of a sequence see together, but for the keys of its groups.
func (sp *splitter) keysOf(seq, first, ctx, n, q0, q1 int) plan.Keys {
	keys := sp.places.Of(first, ctx, n, q0, q1)
	keys.Lo = max(keys.Lo, sp.member(seq).Begin)
	return keys
}

// split appends the items of a sequence, the ones with the longest contexts first,
// so that the short ones fill the gaps at the end.
func (sp *splitter) split(seq, first, ctx, n int) {
	step := sp.load.tileTokens()
	for q0 := (n - 1) / step * step; n > 0 && q0 >= 0; q0 -= step {
		q1 := min(q0+step, n)
		keys := sp.keysOf(seq, first, ctx, n, q0, q1)
		rows, m := (q1-q0)*sp.load.qHeads, sp.member(seq)
		parts, size := sp.partsOf(keys, rows)
		all := m.Parts + parts
		sp.cut(item{seq: seq, q0: q0, q1: q1, base: sp.rows, part: m.Parts, parts: all}, keys, parts, size)
		if all > 1 {
			sp.setBase(seq)
			sp.parts += all
			sp.rows += all * rows
		}
	}
}

// cut appends the items of a tile's keys in parts, of which it is the first.
func (sp *splitter) cut(it item, keys plan.Keys, parts, size int) {
	it.k1 = keys.From(0)
	for part := range parts {
		it.k0, it.k1 = keys.From(it.k1), keys.Hi
		if part < parts-1 && sp.fixed {
			it.k1 = nextFixed(it.k0)
		} else if part < parts-1 {
			it.k1 = keys.At((part + 1) * size)
		}
		sp.keep(&it, min(size, keys.Count()))
		sp.work = it.encode(sp.work)
		it.part++
	}
	sp.items += parts
}

// keep gives an item of few rows, or of several sequences, a place for its weights, while there is one.
func (sp *splitter) keep(it *item, keys int) {
	it.kept, it.chunks = 0, sp.load.chunksOf(keys)
	if !sp.load.withMass || !it.many() && (it.q1-it.q0)*sp.load.qHeads > fewRows*sp.load.kvHeads {
		return
	}
	if units := ceilDiv(sp.load.keptSize(it), keptUnit); units <= maxUnits-sp.units {
		it.kept = sp.units + 1
		sp.units += units
	}
}

// partsOf is into how many parts a tile's keys are cut, and the size of all but
// the last. Of several tiles one is cut when the KV heads of it that are walked together are more than
// half of a worker's share.
func (sp *splitter) partsOf(keys plan.Keys, rows int) (parts, size int) {
	count := keys.Count()
	if sp.fixed {
		size = fixedPart
		for key := keys.From(0); key < keys.Hi; key = keys.From(nextFixed(key)) {
			parts++
		}
	} else if parts = sp.cuts; parts == 0 && sp.threads > 1 {
		group := rows / sp.load.kvHeads
		parts = int(math.Ceil(float64(count) * float64(group*sp.load.together(group, sp.abreast)) / max(sp.halfShare(sp.threads), 1)))
	}
	if !sp.fixed {
		parts, size = partsOfKeys(count, parts)
	}
	if parts < 2 || int64(parts)*int64(rows) > math.MaxUint32-int64(sp.rows) {
		return 1, count
	}
	return parts, size
}

// nextFixed is where the fixed part ends that key is in.
func nextFixed(key int) int { return key - key%fixedPart + fixedPart }
