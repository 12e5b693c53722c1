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
	// whose weights are kept for the attention scores.
	fewRows = 16
	// smallBlock is the largest block whose heads are walked together, maxTogether how many:
	// their rows lie next to each other, and reach as far as one head's in a large block.
	smallBlock, maxTogether = 64, 8
	// keptUnit is the elements that the places of kept weights are counted in.
	keptUnit = 64
	// fixedPart is the keys of a part where Options.Reproducible fixes them: parts begin at
	// multiples of it, so that a row's own keys say how it is split, and not its tile's. It is
	// what Options.Reproducible says, and a multiple of chunk.
	fixedPart = 2048
	// maxUnits bounds the memory for kept weights, to a quarter of a gigabyte.
	maxUnits = 1 << 28 / 4 / keptUnit
	// minPart is how many keys a part of a split context has at least, but for the
	// last: below, the merge costs more than the parallelism saves.
	minPart = 256
)

// The work of a plan, as U32: a header, its items, and the list of queries that items of several
// sequences have. The header lets Attend recognise work that was made for another shape or a
// narrower mask, which would leave rows or keys out.
const (
	planMagic = 0x666b7607
	// magic and fingerprint (2), then
	wordVisible = 3 // what the plan has keys for, see plan.Visibility.Words
	wordItems   = wordVisible + plan.VisibleWords
	wordRows    = wordItems + 1  // partial ones
	wordUnits   = wordRows + 1   // of kept weights
	wordListed  = wordUnits + 1  // queries
	wordAbreast = wordListed + 1 // the most KV heads that walk side by side
	headerWords = wordAbreast + 1
)

// PlanAttend divides the queries of a step into tiles, and when there are fewer tiles than workers
// also the contexts of tiles. The blocks that sequences begin with are read once for all of them
// where that is faster; with Options.Reproducible only when MinShared asks for it, because it makes
// the order of additions depend on what else is in the step. A plan depends only on the shape and
// the number of workers.
func (be *Backend) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	be.mu.RLock()
	defer be.mu.RUnlock()
	if err := be.open("plan attend"); err != nil {
		return backend.AttendPlan{}, err
	}
	if err := check.Plan(be.caps, s); err != nil {
		return backend.AttendPlan{}, err
	}
	l := workload{qHeads: s.QHeads, kvHeads: s.KVHeads, vDim: s.VDim, block: s.BlockSize, tileRows: be.tileRows(), withMass: s.Scores,
		see: plan.Planned(&s), viewed: s.Views != nil, treeWords: s.TreeWords}
	sp := splitter{load: l, threads: be.pool.threads, fixed: be.fixed, places: plan.PlacesOf(&s)}
	if plan.Shares(&s) && (!be.fixed || s.MinShared > 0) {
		sp.share(&s)
	}
	sum, tokens := l.fingerprint(), 0
	for i, ctx := range s.ContextLens {
		n := int(s.QueryLens[i])
		sum = sum.Add(int(ctx), n)
		sp.weigh(i, tokens, int(ctx), n)
		tokens += n
	}
	sum = sum.AddWords(s.Views)
	sp.weighGroups()
	sp.divide()
	see := l.see.Words()
	sp.work = append(append(append(s.Work[:0], planMagic, uint32(sum), uint32(sum>>32)), see[:]...), 0, 0, 0, 0, uint32(sp.abreast))
	sp.splitGroups()
	first := 0
	for i, ctx := range s.ContextLens {
		n := int(s.QueryLens[i])
		sp.split(i, first, int(ctx), n)
		first += n
	}
	listed := sp.list(s.QueryLens)
	sp.noShare()
	space, ok := l.workspace(tokens, sp.rows, sp.units)
	if !ok || int64(sp.rows) > math.MaxUint32 {
		return backend.AttendPlan{}, backend.ErrArgument{Op: "plan attend", What: fmt.Sprintf("workspace: %d tokens of %d heads are too many", tokens, l.qHeads)}
	}
	sp.work[wordItems], sp.work[wordRows], sp.work[wordUnits], sp.work[wordListed] = uint32(sp.items), uint32(sp.rows), uint32(sp.units), uint32(listed)
	return backend.AttendPlan{Work: sp.work, Items: sp.items, Parts: sp.parts, Workspace: space, Scores: s.Scores}, nil
}
