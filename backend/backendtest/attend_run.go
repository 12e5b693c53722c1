package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// lseOffset is the element at which log-sum-exps begin in their buffer.
const lseOffset = 7

// attendRun is a case of attention on a device.
type attendRun[B backend.Buffer] struct {
	attendSpec
	r       *rig[B]
	cache   *cache[B]
	tables  [][]int      // blocks of each sequence
	seen    map[int]bool // slots, where views or trees say
	unseen  int          // a block of poison
	q, out  *vectors[B]
	lse     *region[B] // nil: not asked for
	mass    *region[B]
	given   *region[B] // log-sum-exps for the mass alone
	slopes  []float32
	logits  []float32
	shape   backend.AttendShape
	params  backend.AttendParams[B]
	queries [][]float32             // [tokens] of [qHeads*kDim], as stored
	exact   [2]map[[2]int][]float32 // keys and values by slot and head, where the reference wants them unrounded
}

// newAttend allocates and fills the operands of a case and plans it.
func newAttend[B backend.Buffer](r *rig[B], s attendSpec) *attendRun[B] {
	a := &attendRun[B]{attendSpec: s, r: r}
	a.layBlocks()
	a.fillCache()
	a.q = r.vectors("Q", s.format.Act, s.tokens(), s.qHeads*s.kDim, s.strided)
	for i := range s.tokens() {
		a.q.put(i, a.random(a.q.width))
		a.queries = append(a.queries, decode(a.q.dt, a.q.row(a.q.image, i)))
	}
	a.out = r.vectors("output", s.format.Act, s.tokens(), s.qHeads*s.vDim, s.strided)
	a.params = backend.AttendParams[B]{
		Cache: a.cache.view(), Batch: a.batch(), Q: a.q.rows(), QHeads: s.qHeads, Scale: s.scale(),
		Mask: a.mask(), Out: a.outputs(), Int8Query: s.int8Query,
	}
	a.shape = backend.AttendShape{
		QHeads: s.qHeads, KVHeads: s.kvHeads, KDim: s.kDim, VDim: s.vDim, BlockSize: s.block(), Format: s.format, Latent: s.latent,
		NonCausal: s.mask.nonCausal, Window: s.mask.window, SinkTokens: s.mask.sinkTokens, Scores: s.output.mass,
		Part: s.mask.part, Residual: s.mask.recent, Chunk: s.mask.chunk, Views: s.viewWords(), TreeWords: s.treeWords(),
	}
	for _, seq := range s.seqs {
		a.shape.ContextLens = append(a.shape.ContextLens, uint32(seq.context))
		a.shape.QueryLens = append(a.shape.QueryLens, uint32(seq.queries))
	}
	a.tell(&a.shape)
	if s.planned != nil {
		s.planned(&a.shape)
	}
	a.params.Plan, a.params.Work, a.params.Workspace = r.plan(a.shape)
	return a
}

// plan plans a shape and provides what the plan asks for.
func (r *rig[B]) plan(shape backend.AttendShape) (p backend.AttendPlan, work, space backend.Opt[B]) {
	p, err := r.be.PlanAttend(shape)
	require.NoError(r, err, "planning")
	if len(p.Work) > 0 {
		work = backend.Some(constant(r, "work", backend.U32, p.Work).buf)
	}
	if p.Workspace > 0 {
		reg := r.region("workspace", backend.F32, 0, p.Workspace)
		reg.scratch = true
		space = backend.Some(reg.buf)
	}
	return p, work, space
}

// layBlocks gives each sequence blocks of a shuffled pool that has more blocks
// than they need. Without a table the pool is in the sequences' order.
func (a *attendRun[B]) layBlocks() {
	block := a.block()
	need := 0
	for _, seq := range a.seqs {
		need += (seq.context + block - 1) / block
	}
	blocks := need + 3
	if !a.layout.table {
		blocks = len(a.seqs) + 1
	}
	a.cache = a.r.cacheOf(a.latent, geometry{a.kvHeads, block, blocks, a.kDim, a.vDim, a.format})
	a.cache.k.hadamard = a.hadamard
	order := a.r.rng.Perm(blocks)
	for i, seq := range a.seqs {
		n := (seq.context + block - 1) / block
		if !a.layout.table {
			a.tables = append(a.tables, []int{i})
			continue
		}
		a.tables = append(a.tables, append([]int(nil), order[:n]...))
		order = order[n:]
	}
	if a.output.shared && a.layout.table && len(a.tables[0]) > 0 && len(a.tables[1]) > 0 {
		copy(a.tables[1][:(len(a.tables[1])+1)/2], a.tables[0])
	}
	a.join()
	a.double()
	if a.layout.block > 0 {
		a.unseen = order[0]
	}
}

// slot is where token i of a sequence lies.
func (a *attendRun[B]) slot(seq, i int) int {
	return a.tables[seq][i/a.cache.block]*a.cache.block + i%a.cache.block
}

// fillCache writes the slots that a sequence uses and no others; of queries with views or trees, those
// that they see.
func (a *attendRun[B]) fillCache() {
	written := map[int]bool{}
	a.exact = [2]map[[2]int][]float32{{}, {}}
	for i, seq := range a.seqs {
		for token := range seq.context {
			slot := a.slot(i, token)
			if written[slot] || !a.seesKey(i, token) {
				continue
			}
			written[slot] = true
			for head := range a.kvHeads {
				k := a.random(a.kDim)
				v := k[:min(a.vDim, a.kDim)]
				a.cache.k.put(slot, head, k)
				if !a.latent {
					v = a.r.normal(a.vDim)
					a.cache.v.put(slot, head, v)
				}
				if a.unquantized {
					a.exact[0][[2]int{slot, head}], a.exact[1][[2]int{slot, head}] = k, v
				}
			}
		}
	}
}

// key and value are what the reference reads at a slot.
func (a *attendRun[B]) key(slot, head int) []float32 {
	if a.unquantized {
		return a.exact[0][[2]int{slot, head}]
	}
	return a.cache.k.values(a.cache.k.now(), slot, head)
}

func (a *attendRun[B]) value(slot, head int) []float32 {
	if a.unquantized {
		return a.exact[1][[2]int{slot, head}]
	}
	return a.cache.v.values(a.cache.v.now(), slot, head)
}

// random is the values of a query or key.
func (a *attendRun[B]) random(n int) []float32 {
	if !a.smallIntegers && !a.int8Query {
		return a.r.normal(n)
	}
	out := make([]float32, n)
	for i := range out {
		if out[i] = float32(a.r.rng.IntN(3) - 1); a.int8Query {
			out[i] = float32(2*a.r.rng.Float64() - 1)
		}
	}
	return out
}

// batch uploads the sequences. Entries of the table that no context reaches hold
// poison, and those that no query sees name a block of poison.
func (a *attendRun[B]) batch() backend.Ragged[B] {
	b := backend.Ragged[B]{Seqs: len(a.seqs), Tokens: a.tokens()}
	lens, offsets := []uint32{}, []uint32{0}
	for _, seq := range a.seqs {
		lens = append(lens, uint32(seq.context))
		offsets = append(offsets, offsets[len(offsets)-1]+uint32(seq.queries))
		b.TableStride = max(b.TableStride, (seq.context+a.cache.block-1)/a.cache.block)
	}
	b.ContextLens = constant(a.r, "context lengths", backend.U32, lens).buf
	if !a.omitOffsets {
		b.QueryOffsets = backend.Some(constant(a.r, "query offsets", backend.U32, offsets).buf)
	}
	a.show(&b)
	if !a.layout.table {
		b.TableStride = 0
		return b
	}
	if a.layout.block > 0 {
		b.TableStride++ // a contiguous cache has one block a sequence, and no more
	}
	b.TableStride = max(b.TableStride, 1)
	table := a.r.region("block table", backend.U32, 0, len(a.seqs)*b.TableStride)
	for i, blocks := range a.tables {
		ids := make([]uint32, len(blocks))
		for j := range blocks {
			ids[j] = a.entry(i, j)
		}
		table.set(i*b.TableStride, backend.BytesOf(ids))
	}
	b.Table = backend.Some(table.buf)
	return b
}

// entry is the block of a sequence's table, or one of poison where no query sees it; where that is not at
// the edges alone, some entries are no block at all.
func (a *attendRun[B]) entry(seq, i int) uint32 {
	m := a.attendSpec.mask
	inside := m.part != backend.AllKeys || m.chunk > 0 || a.views != nil || a.tree != nil
	switch {
	case m.window == 0 && !inside, a.layout.block == 0, a.prefixes != nil, a.output.shared, a.seesBlock(seq, i):
		return uint32(a.tables[seq][i])
	case inside && i%2 == 1:
		return math.MaxUint32
	}
	return uint32(a.unseen)
}

// seesBlock reports whether a query sees a key of a block of its sequence.
func (a *attendRun[B]) seesBlock(seq, i int) bool {
	block, v := a.cache.block, a.attendSpec.mask.visibility(a.cache.block)
	first := a.firstOf(seq)
	for query := range a.seqs[seq].queries {
		q := a.viewer(seq, first, query)
		for key := i * block; key < min((i+1)*block, a.seqs[seq].context); key++ {
			if v.sees(q, key) {
				return true
			}
		}
	}
	return false
}

func (a *attendRun[B]) mask() backend.Mask[B] {
	m := backend.Mask[B]{NonCausal: a.attendSpec.mask.nonCausal, Window: a.attendSpec.mask.window,
		SinkTokens: a.attendSpec.mask.sinkTokens, SoftCap: a.attendSpec.mask.softCap,
		Part: a.attendSpec.mask.part, Residual: a.attendSpec.mask.recent, Chunk: a.attendSpec.mask.chunk}
	a.slopes, a.logits = make([]float32, a.qHeads), make([]float32, a.qHeads)
	for h := range a.qHeads {
		a.logits[h] = float32(math.Inf(-1))
	}
	if a.attendSpec.mask.alibi {
		for h := range a.slopes {
			a.slopes[h] = float32(math.Exp2(-8 * float64(h+1) / float64(a.qHeads)))
		}
		m.ALiBi = backend.Some(constant(a.r, "slopes", backend.F32, a.slopes).buf)
	}
	if a.attendSpec.mask.sinkLogits {
		a.logits = a.r.normal(a.qHeads)
		m.SinkLogits = backend.Some(constant(a.r, "sink logits", backend.F32, a.logits).buf)
	}
	return m
}

// outputs are poisoned, but for the attention scores: it is added to, so that it
// starts at some value in every slot.
func (a *attendRun[B]) outputs() backend.Outputs[B] {
	o := backend.Outputs[B]{Rows: a.out.rows()}
	if a.output.lse {
		a.lse = a.r.region("log-sum-exp", backend.F32, lseOffset, a.tokens()*a.qHeads)
		o.LSE, o.LSEOffset = backend.Some(a.lse.buf), lseOffset
	}
	if a.output.mass {
		n := a.cache.slots() * a.kvHeads
		a.mass = a.r.region("attention scores", backend.F32, 0, n)
		before := make([]float32, n)
		for i := range before {
			before[i] = float32(i%5) / 4
		}
		a.mass.set(0, encode(backend.F32, before))
		a.given = a.r.region("given log-sum-exp", backend.F32, givenOffset, a.tokens()*a.qHeads)
		o.Scores = backend.Some(a.mass.buf)
	}
	return o
}

// attend runs the case.
func (a *attendRun[B]) attend() {
	a.r.push()
	require.NoError(a.r, a.r.be.Attend(a.r.s, a.params))
}
