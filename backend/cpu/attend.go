package cpu

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// attention is one call of Attend, its operands as memory. It runs in up to three
// steps over all workers: the tiles; the merge of the tiles whose context is
// split; and, where it is wanted, the attention scores. AttendScores is the last one alone.
type attention struct {
	workload
	op           string // in errors
	k            *kernels
	q, out       vectors
	keys, values plane
	latent       bool      // the values are in the keys
	fixed        bool      // Options.Reproducible
	int8Query    bool      // queries are rounded
	group        int       // query heads of a KV head
	tokens       int       // of all sequences
	scale        float32   // of products of queries and keys
	softCap      float32   // 0: none
	tables       []uint32  // [seqs, stride], nil: sequence i lies in block i
	stride       int       // of tables
	lens         []uint32  // [seqs]
	offsets      []uint32  // [seqs+1], nil: one token a sequence
	items        []uint32  // of the plan
	listed       []uint32  // queries of its items of several sequences
	abreast      int       // of the plan: the most KV heads that walk side by side
	lse          []float32 // [tokens, heads], nil: not wanted
	finalLSE     []float32 // [tokens, heads] for the mass, nil: not wanted
	slopes       []float32 // ALiBi, nil: none
	sinks        []float32 // logits, nil: none
	small        bool      // one goroutine's, and soon done
	mass         []float32 // [blocks, KV heads, block], nil: not wanted
	split        partials
	space        int       // elements of the workspace that the work needs
	spaceRows    int       // partial results in it
	keptSpace    []float32 // of the items' kept weights
	shards       int       // parts that the blocks are dealt to for the mass
	blocks       int       // of the cache
	ordinary     bool      // which keys queries see follows from their numbers (see plan.Visibility.Of)
	views        []uint32  // [tokens, 2], nil: as the mask says
	tree         []uint32  // [tokens, treeWords], nil: none
}

// Attend computes softmax(q·K)·V. Lengths, offsets, the blocks that queries see, and the plan's
// work are checked before anything is written (ErrArgument).
func (be *Backend) Attend(s backend.Stream, p backend.AttendParams[*Buffer]) error {
	ops, err := be.begin("attend", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Attend(&p); err != nil || p.Batch.Tokens == 0 {
		return err
	}
	c := be.pool.borrow(attentionExtent(&p))
	defer giveBack(be.pool, c, &c.attention)
	a := &c.attention
	a.bind("attend", &p)
	a.bindRows(&p)
	if err := a.check(&p); err != nil {
		return err
	}
	cost, items := a.cost(), len(a.items)/itemWords
	a.small = cost < 2*smallWork
	if err := be.pool.run(a, items*a.kvHeads, cost, c.scratch); err != nil {
		return err
	}
	if p.Plan.Parts > 0 {
		if err := be.pool.run(combining{a}, items, cost/chunk, c.scratch); err != nil {
			return err
		}
	}
	if a.mass == nil {
		return nil
	}
	return be.weigh(a, cost, c.scratch)
}

// AttendScores adds to the attention scores of keys, relative to given log-sum-exps. Lengths,
// offsets, the blocks that queries see, and the plan's work are checked before anything is added
// (ErrArgument).
func (be *Backend) AttendScores(s backend.Stream, p backend.AttendScoresParams[*Buffer]) error {
	ops, err := be.begin("attend scores", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.AttendScores(&p); err != nil || p.Batch.Tokens == 0 {
		return err
	}
	weighed := check.Weighed(&p)
	c := be.pool.borrow(attentionExtent(&weighed))
	defer giveBack(be.pool, c, &c.attention)
	a := &c.attention
	a.bind("attend scores", &weighed)
	if err := a.check(&weighed); err != nil {
		return err
	}
	a.finalLSE = view[float32](p.LSE)[p.LSEOffset:]
	return be.weigh(a, a.cost(), c.scratch)
}

// weigh adds the attention scores of a call whose log-sum-exps are final.
func (be *Backend) weigh(a *attention, cost int, w *scratch) error {
	a.shards = max(2*be.pool.threads/a.kvHeads, 1)
	return be.pool.run(weighing{a}, a.shards*a.kvHeads, cost, w)
}

// attentionExtent is the scratch for the largest tile.
func attentionExtent(p *backend.AttendParams[*Buffer]) extent {
	l := workload{qHeads: p.QHeads, kvHeads: p.Cache.KVHeads, block: p.Cache.BlockSize, tileRows: p.Q.Buf.be.tileRows()}
	tile := l.tileTokens() * l.qHeads / l.kvHeads
	rows := max(tile, min(tile, fewRows)*min(l.kvHeads, maxTogether))
	need := extent{q: rows * p.Cache.K.Dim, acc: rows * p.Cache.V.Dim, scores: rows * panel, rows: rows,
		vectors: panel * max(p.Cache.K.Dim, p.Cache.V.Dim), panel: panel * p.Cache.K.Dim}
	if p.Int8Query {
		need.rounded, need.integers = need.q, p.Cache.K.Dim
	}
	return need
}

// bind resolves checked parameters into a, which is zero, but for what attention writes beside the mass: field
// by field, which is faster than to copy it.
func (a *attention) bind(op string, p *backend.AttendParams[*Buffer]) {
	v, be := &p.Cache, p.Q.Buf.be
	a.op = op
	a.qHeads, a.kvHeads, a.vDim, a.block, a.tileRows, a.withMass = p.QHeads, v.KVHeads, v.V.Dim, v.BlockSize, be.tileRows(), p.Plan.Scores
	a.see = plan.Visible(&p.Mask, v.BlockSize)
	a.k, a.fixed, a.int8Query, a.group = be.kernels, be.fixed, p.Int8Query, p.QHeads/v.KVHeads
	a.tokens, a.scale, a.softCap = p.Batch.Tokens, p.Scale, p.Mask.SoftCap
	a.q.of(&p.Q, a.tokens, p.QHeads*v.K.Dim)
	a.keys.of(v, &v.K)
	a.values.ofValues(v)
	a.latent = v.Latent
	a.tables, a.stride = optional[uint32](p.Batch.Table), p.Batch.TableStride
	a.lens, a.offsets = view[uint32](p.Batch.ContextLens)[:p.Batch.Seqs], optional[uint32](p.Batch.QueryOffsets)
	a.views, a.viewed, a.blocks = optional[uint32](p.Batch.Views), p.Batch.Views.Set, v.Blocks
	if p.Batch.Tree.Set {
		a.tree, a.treeWords = view[uint32](p.Batch.Tree.Buf), p.Batch.TreeWords
	}
	a.ordinary = a.see.Plain(a.viewed, a.treeWords)
	a.slopes, a.sinks = optional[float32](p.Mask.ALiBi), optional[float32](p.Mask.SinkLogits)
	a.mass = optional[float32](p.Out.Scores)
}

// bindRows resolves what attention writes beside the mass.
func (a *attention) bindRows(p *backend.AttendParams[*Buffer]) {
	a.out.of(&p.Out.Rows, a.tokens, p.QHeads*p.Cache.V.Dim)
	if a.lse = optional[float32](p.Out.LSE); a.lse != nil {
		a.lse = a.lse[p.Out.LSEOffset:]
	}
}

// optional is the memory of an operand, nil where it is absent.
func optional[T backend.Number](o backend.Opt[*Buffer]) []T {
	if !o.Set {
		return nil
	}
	return view[T](o.Buf)
}

// tokensOf is the first token of a sequence and how many there are.
func (a *attention) tokensOf(seq int) (first, n int) {
	if a.offsets == nil {
		return seq, 1
	}
	return int(a.offsets[seq]), int(a.offsets[seq+1] - a.offsets[seq])
}

// cost is the multiply-adds of the call.
func (a *attention) cost() int {
	pairs := 0
	var it item
	for work := a.items; len(work) > 0; work = work[itemWords:] {
		it.decode(work)
		pairs += (it.q1 - it.q0) * (it.k1 - it.k0)
	}
	return pairs * a.qHeads * (a.keys.dim + a.values.dim)
}
