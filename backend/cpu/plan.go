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
	// head's group over a run of tokens.
	tileRows = 32
	// chunk is how many keys are scored at a time. Chunks start at multiples of it,
	// so that results do not depend on how a prompt was cut.
	chunk = 32
	// minPart is how many keys a part of a split context has at least, but for the
	// last: below, the merge costs more than the parallelism saves.
	minPart = 256
)

// The work of a plan, as U32: a header and its items. The header lets Attend
// recognise work that was made for another shape or a narrower mask, which would
// leave rows or keys out.
const (
	planMagic   = 0x666b7601
	headerWords = 7 // magic, fingerprint (2), window, sink tokens, items, partial rows
	itemWords   = 8
)

// item is a unit of work: queries [q0, q1) of a sequence, all heads, over its keys
// at [k0, k1). An item of several parts writes its rows from partial row
// base + part*(its rows) on.
type item struct {
	seq, q0, q1, k0, k1 int
	base, part, parts   int
}

func (it item) encode(work []uint32) []uint32 {
	return append(work, uint32(it.seq), uint32(it.q0), uint32(it.q1), uint32(it.k0), uint32(it.k1),
		uint32(it.base), uint32(it.part), uint32(it.parts))
}

func decodeItem(w []uint32) item {
	w = w[:itemWords]
	return item{int(w[0]), int(w[1]), int(w[2]), int(w[3]), int(w[4]), int(w[5]), int(w[6]), int(w[7])}
}

// within reports whether an item of a call with that many queries and that
// context in its sequence stays inside them and the partial rows.
func (it item) within(queries, ctx int, l *workload, partialRows int) bool {
	if it.q0 < 0 || it.q0 >= it.q1 || it.q1 > queries || it.q1-it.q0 > l.tileTokens() || it.k0 < 0 || it.k1 > ctx || it.part < 0 || it.part >= it.parts {
		return false
	}
	rows, ok := backend.Mul(it.parts, it.q1-it.q0, l.qHeads)
	return it.parts == 1 || ok && it.base >= 0 && it.base <= partialRows && rows <= partialRows-it.base
}

// workload is what the plan and its call must agree on.
type workload struct {
	qHeads, kvHeads, vDim int
	see                   plan.Visibility
	withMass              bool
}

// tileTokens is how many tokens' queries make a tile.
func (l *workload) tileTokens() int { return max(tileRows/(l.qHeads/l.kvHeads), 1) }

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
// attention mass is wanted, and the partial results with theirs. It is false when
// they overflow.
func (l *workload) workspace(tokens, partialRows int) (n int, ok bool) {
	partial, ok := backend.Mul(partialRows, l.vDim+1)
	if !ok || !l.withMass {
		return partial, ok
	}
	mass, ok := backend.Mul(tokens, l.qHeads)
	return mass + partial, ok && mass <= math.MaxInt-partial
}

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
	l := workload{qHeads: s.QHeads, kvHeads: s.KVHeads, vDim: s.VDim, withMass: s.Mass,
		see: plan.Visible(s.NonCausal, s.Window, s.SinkTokens)}
	sp := splitter{load: l, threads: be.pool.threads}
	sum, tokens := l.fingerprint(), 0
	for i, ctx := range s.ContextLens {
		n := int(s.QueryLens[i])
		sum = sum.Add(int(ctx), n)
		tokens += n
		sp.weigh(int(ctx), n)
	}
	sp.work = append(s.Work[:0], planMagic, uint32(sum), uint32(sum>>32), uint32(l.see.Window), uint32(l.see.SinkTokens), 0, 0)
	for i, ctx := range s.ContextLens {
		sp.split(i, int(ctx), int(s.QueryLens[i]))
	}
	space, ok := l.workspace(tokens, sp.rows)
	if !ok {
		return backend.AttendPlan{}, backend.ErrShape{Op: "plan attend", What: fmt.Sprintf("workspace: %d tokens of %d heads are too many", tokens, l.qHeads)}
	}
	sp.work[5], sp.work[6] = uint32(sp.items), uint32(sp.rows)
	return backend.AttendPlan{Work: sp.work, Items: sp.items, Parts: sp.parts, Workspace: space, Mass: s.Mass}, nil
}

// splitter makes the items of a plan in two passes over the sequences: one that
// weighs them and one that splits them.
type splitter struct {
	load    workload
	threads int
	total   float64 // pairs of query row and key, over all KV heads

	work               []uint32
	items, parts, rows int
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
		parts, size := sp.partsOf(keys.Count(), rows)
		it := item{seq: seq, q0: q0, q1: q1, base: sp.rows, parts: parts}
		for it.part = range parts {
			it.k0 = keys.At(it.part * size)
			it.k1 = keys.Hi
			if it.part < parts-1 {
				it.k1 = keys.At((it.part + 1) * size)
			}
			sp.work = it.encode(sp.work)
		}
		sp.items += parts
		if parts > 1 {
			sp.parts += parts
			sp.rows += parts * rows
		}
	}
}

// partsOf is into how many parts a tile's keys are cut, and the size of all but
// the last. A tile is cut when one of its KV heads alone is more than half of a
// worker's share.
func (sp *splitter) partsOf(keys, rows int) (parts, size int) {
	share := sp.total / float64(2*sp.threads)
	parts = int(math.Ceil(float64(keys) * float64(rows/sp.load.kvHeads) / max(share, 1)))
	parts = min(parts, keys/minPart)
	if sp.threads == 1 || parts < 2 || int64(parts)*int64(rows) > math.MaxUint32-int64(sp.rows) {
		return 1, keys
	}
	size = ((keys+parts-1)/parts + chunk - 1) / chunk * chunk
	return (keys + size - 1) / size, size
}
