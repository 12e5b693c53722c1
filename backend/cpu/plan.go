package cpu

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

const (
	// tileRows is how many query rows share a decoded key, about: those of one KV
	// head's group over a run of tokens. tallRows is as many where they meet the keys in
	// products of matrices; it is a multiple of the rows of a block of registers.
	tileRows, tallRows = 32, 96
	// chunk is how many keys are scored at a time. Chunks start at multiples of it,
	// so that results do not depend on how a prompt was cut.
	chunk = 64
	// fewRows is the largest number of rows of a tile that is walked with other heads, and
	// whose weights are kept for the attention mass.
	fewRows = 16
	// smallBlock is the largest block whose heads are walked together, maxTogether how many:
	// their rows lie next to each other, and reach as far as one head's in a large block.
	smallBlock, maxTogether = 64, 8
	// keptUnit is the elements that the places of kept weights are counted in.
	keptUnit = 64
	// fixedPart is the keys of a part where Options.Reproducible fixes them: parts begin at
	// multiples of it, so that a row's own keys say how it is split, and not its tile's.
	fixedPart = 2048
	// maxUnits bounds the memory for kept weights, to a quarter of a gigabyte.
	maxUnits = 1 << 28 / 4 / keptUnit
	// minPart is how many keys a part of a split context has at least, but for the
	// last: below, the merge costs more than the parallelism saves.
	minPart = 256
)

// The work of a plan, as U32: a header and its items. The header lets Attend
// recognise work that was made for another shape or a narrower mask, which would
// leave rows or keys out.
const (
	planMagic   = 0x666b7602
	headerWords = 8 // magic, fingerprint (2), window, sink tokens, items, partial rows, units of kept weights
	itemWords   = 10
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

func decodeItem(w []uint32) item {
	w = w[:itemWords]
	return item{int(w[0]), int(w[1]), int(w[2]), int(w[3]), int(w[4]), int(w[5]), int(w[6]), int(w[7]), int(w[8]), int(w[9])}
}

// within reports whether an item of a call with that many queries and that
// context in its sequence stays inside them and the partial rows.
func (it item) within(queries, ctx int, l *workload, partialRows, units int) bool {
	if it.q0 < 0 || it.q0 >= it.q1 || it.q1 > queries || it.q1-it.q0 > l.tileTokens() || it.k0 < 0 || it.k1 > ctx || it.part < 0 || it.part >= it.parts {
		return false
	}
	if it.kept != 0 {
		size, ok := backend.Mul(it.chunks, it.q1-it.q0, l.qHeads, chunk+1)
		if !ok || it.kept < 0 || it.kept-1 > units || max(size-1, 0)/keptUnit >= units-it.kept+1 {
			return false
		}
	}
	rows, ok := backend.Mul(it.parts, it.q1-it.q0, l.qHeads)
	return it.parts == 1 || ok && it.base >= 0 && it.base <= partialRows && rows <= partialRows-it.base
}

// workload is what the plan and its call must agree on.
type workload struct {
	qHeads, kvHeads, vDim int
	block                 int // slots of a block
	tileRows              int
	see                   plan.Visibility
	withMass              bool
}

// tileTokens is how many tokens' queries make a tile.
func (l *workload) tileTokens() int { return max(l.tileRows/(l.qHeads/l.kvHeads), 1) }

// tileRows is how many rows a tile has. Reproducible results need tiles that are all walked
// alike.
func (be *Backend) tileRows() int {
	if be.kernels.gemm == nil || be.fixed {
		return tileRows
	}
	return tallRows
}

// together is how many KV heads walk the keys of a tile of so many rows side by side.
func (l *workload) together(rows int) int {
	if rows > fewRows || l.block > smallBlock {
		return 1
	}
	return min(l.kvHeads, maxTogether)
}

func (l *workload) fingerprint() plan.Fingerprint {
	flags := 0
	if l.see.NonCausal {
		flags |= 1
	}
	if l.withMass {
		flags |= 2
	}
	return plan.NewFingerprint(l.qHeads, l.kvHeads, l.vDim, flags)
}

// workspace is the f32 elements of a call: the log-sum-exp of every row where the
// attention mass is wanted, the partial results with theirs, and the units of kept
// weights. It is false when they overflow.
func (l *workload) workspace(tokens, partialRows, units int) (n int, ok bool) {
	n, ok = backend.Mul(partialRows, l.vDim+1)
	if !ok || !l.withMass {
		return n, ok
	}
	for _, size := range [][2]int{{tokens, l.qHeads}, {units, keptUnit}} {
		more, fits := backend.Mul(size[0], size[1])
		if !fits || more > math.MaxInt-n {
			return 0, false
		}
		n += more
	}
	return n, true
}

func ceilDiv(n, by int) int { return (n + by - 1) / by }

// PlanAttend splits the queries of a step into tiles, and the contexts of tiles
// too where there are fewer tiles than workers. A plan depends on the shape and
// the number of workers only.
func (be *Backend) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	be.mu.RLock()
	defer be.mu.RUnlock()
	if err := be.open("plan attend"); err != nil {
		return backend.AttendPlan{}, err
	}
	if err := check.Plan(be.caps, s); err != nil {
		return backend.AttendPlan{}, err
	}
	l := workload{qHeads: s.QHeads, kvHeads: s.KVHeads, vDim: s.VDim, block: s.BlockSize, tileRows: be.tileRows(), withMass: s.Mass,
		see: plan.Visible(s.NonCausal, s.Window, s.SinkTokens)}
	sp := splitter{load: l, threads: be.pool.threads, fixed: be.fixed}
	sum, tokens := l.fingerprint(), 0
	for i, ctx := range s.ContextLens {
		n := int(s.QueryLens[i])
		sum = sum.Add(int(ctx), n)
		tokens += n
		sp.weigh(int(ctx), n)
	}
	sp.work = append(s.Work[:0], planMagic, uint32(sum), uint32(sum>>32), uint32(l.see.Window), uint32(l.see.SinkTokens), 0, 0, 0)
	for i, ctx := range s.ContextLens {
		sp.split(i, int(ctx), int(s.QueryLens[i]))
	}
	space, ok := l.workspace(tokens, sp.rows, sp.units)
	if !ok {
		return backend.AttendPlan{}, backend.ErrShape{Op: "plan attend", What: fmt.Sprintf("workspace: %d tokens of %d heads are too many", tokens, l.qHeads)}
	}
	sp.work[5], sp.work[6], sp.work[7] = uint32(sp.items), uint32(sp.rows), uint32(sp.units)
	return backend.AttendPlan{Work: sp.work, Items: sp.items, Parts: sp.parts, Workspace: space, Mass: s.Mass}, nil
}

// splitter makes the items of a plan in two passes over the sequences: one that
// weighs them and one that splits them.
type splitter struct {
	load    workload
	threads int
	fixed   bool    // parts have fixedPart keys, however many threads there are
	total   float64 // pairs of query row and key, over all KV heads

	work               []uint32
	items, parts, rows int
	units              int // of kept weights
}

// weigh adds the cost of a sequence.
func (sp *splitter) weigh(ctx, n int) {
	step := sp.load.tileTokens()
	for q0 := 0; q0 < n; q0 += step {
		q1 := min(q0+step, n)
		sp.total += float64(sp.load.see.Of(ctx, n, q0, q1).Count()) * float64((q1-q0)*sp.load.qHeads)
	}
}

// split appends the items of a sequence, the ones with the longest contexts first,
// so that the short ones fill the gaps at the end.
func (sp *splitter) split(seq, ctx, n int) {
	step := sp.load.tileTokens()
	for q0 := (n - 1) / step * step; n > 0 && q0 >= 0; q0 -= step {
		q1 := min(q0+step, n)
		keys := sp.load.see.Of(ctx, n, q0, q1)
		rows := (q1 - q0) * sp.load.qHeads
		parts, size := sp.partsOf(keys, rows)
		it := item{seq: seq, q0: q0, q1: q1, base: sp.rows, parts: parts, k1: keys.From(0)}
		for it.part = range parts {
			it.k0, it.k1 = keys.From(it.k1), keys.Hi
			if it.part < parts-1 {
				it.k1 = sp.partEnd(keys, it, size)
			}
			sp.keep(&it, min(size, keys.Count()))
			sp.work = it.encode(sp.work)
		}
		sp.items += parts
		if parts > 1 {
			sp.parts += parts
			sp.rows += parts * rows
		}
	}
}

// keep gives an item of few rows a place for its weights, while there is one.
func (sp *splitter) keep(it *item, keys int) {
	it.kept, it.chunks = 0, chunksOf(keys)
	if !sp.load.withMass || (it.q1-it.q0)*sp.load.qHeads > fewRows*sp.load.kvHeads {
		return
	}
	if units := ceilDiv(sp.load.keptSize(*it), keptUnit); units <= maxUnits-sp.units {
		it.kept = sp.units + 1
		sp.units += units
	}
}

// partsOf is into how many parts a tile's keys are cut, and the size of all but
// the last. A tile is cut when the KV heads of it that are walked together are more than
// half of a worker's share.
func (sp *splitter) partsOf(keys plan.Keys, rows int) (parts, size int) {
	count := keys.Count()
	if sp.fixed {
		size = fixedPart
		for key := keys.From(0); key < keys.Hi; key = keys.From(nextFixed(key)) {
			parts++
		}
	} else if sp.threads > 1 {
		share, group := sp.total/float64(2*sp.threads), rows/sp.load.kvHeads
		parts = int(math.Ceil(float64(count) * float64(group*sp.load.together(group)) / max(share, 1)))
		if parts = min(parts, count/minPart); parts > 1 {
			size = ceilDiv(ceilDiv(count, parts), chunk) * chunk
			parts = ceilDiv(count, size)
		}
	}
	if parts < 2 || int64(parts)*int64(rows) > math.MaxUint32-int64(sp.rows) {
		return 1, count
	}
	return parts, size
}

// partEnd is where a part of so many keys ends, which is not the last.
func (sp *splitter) partEnd(keys plan.Keys, it item, size int) int {
	if sp.fixed {
		return nextFixed(it.k0)
	}
	return keys.At((it.part + 1) * size)
}

// nextFixed is where the fixed part ends that key is in.
func nextFixed(key int) int { return key - key%fixedPart + fixedPart }
