package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// open opens a device that is closed, without a buffer left, at the end of the test.
func open(t testing.TB, threads int) (*Backend, backend.Stream) {
	t.Helper()
	return openWith(t, Options{Threads: threads})
}

func openWith(t testing.TB, o Options) (*Backend, backend.Stream) {
	t.Helper()
	be, err := Open(o)
	require.NoError(t, err)
	s, err := be.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() {
		if be.live {
			require.NoError(t, be.Close())
		}
	})
	return be, s
}

// floats makes a buffer of dt from float32 values.
func floats(t testing.TB, be *Backend, dt backend.DType, values []float32) *Buffer {
	t.Helper()
	b, err := be.Alloc(dt, len(values))
	require.NoError(t, err)
	if len(values) > 0 {
		portable.encode[dt](stored{dt: dt, data: b.mem}, values, false)
	}
	return b
}

// values is the contents of a buffer of floats.
func values(b *Buffer) []float32 {
	out := make([]float32, b.n)
	if b.n > 0 {
		portable.decode[b.dt](out, stored{dt: b.dt, data: b.mem})
	}
	return out
}

// numbers makes a buffer of integers.
func numbers[T backend.Number](t testing.TB, be *Backend, s backend.Stream, dt backend.DType, v []T) *Buffer {
	t.Helper()
	b, err := backend.AllocFrom(backend.Backend[*Buffer](be), s, dt, v)
	require.NoError(t, err)
	return b
}

func randoms(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64())
	}
	return out
}

// scene is an attention call over random keys and values, given by sequence so
// that any layout can hold them.
type scene struct {
	qHeads, kvHeads, kDim, vDim int
	act, k, v                   backend.DType
	latent                      bool // values are the first elements of keys; v is k
	ctx, queries                []int
	block                       int      // 0: contiguous, without a table
	threads                     int      // 0: 2
	mask                        mask     // of the call
	prefixes                    []prefix // by sequence; nil: none, and plans are told no table
	minShared                   int      // of plans that are told the table
	mass                        bool
	int8Query                   bool // the reference has the rounded queries, and exact weights
	options                     Options
}

type mask struct {
	nonCausal     bool
	window, sinks int
	softCap       float32
	alibi, logits bool
	part          backend.Part
	recent        int
}

// sees reports whether a query at position p sees a key, where blocks have that many slots.
func (m *mask) sees(p, key, block int) bool {
	if m.nonCausal {
		return true
	}
	if key > p || m.window > 0 && key <= p-m.window && key >= m.sinks {
		return false
	}
	edge := max(p+1-m.recent, 0) / block * block
	return m.part == backend.AllKeys || (key < edge) == (m.part == backend.OlderKeys)
}

// prefix is what a sequence has in common with an earlier one: its first tokens, as far as they
// fill blocks of both.
type prefix struct{ from, tokens int }

// shared is the tokens that sequence i has in common with the one that its prefix names.
func (c scene) shared(i int) int {
	if c.prefixes == nil || c.block == 0 {
		return 0
	}
	p := c.prefixes[i]
	return min(p.tokens, c.ctx[i], c.ctx[p.from]) / c.block * c.block
}

// seesBlock reports whether a query of sequence i sees a key of its block at depth.
func (c scene) seesBlock(i, depth int) bool {
	for q := range c.queries[i] {
		for key := depth * c.block; key < min((depth+1)*c.block, c.ctx[i]); key++ {
			if c.mask.sees(c.ctx[i]-c.queries[i]+q, key, c.block) {
				return true
			}
		}
	}
	return false
}

// result is what a scene gives, as float32.
type result struct{ out, lse, mass []float32 }

// stage is a scene in device memory.
type stage struct {
	be     *Backend
	s      backend.Stream
	params backend.AttendParams[*Buffer]
	shape  backend.AttendShape
	q      []float32
	keys   [][]float32 // by sequence, [ctx, heads, dim], as stored
	values [][]float32
	slopes []float32
	logits []float32
	table  [][]int // blocks of each sequence
}

// set stages a scene. Everything that depends on seed is the same in every layout.
func (c scene) set(t testing.TB, seed uint64) *stage {
	t.Helper()
	o := c.options
	if o.Threads = c.threads; o.Threads == 0 {
		o.Threads = 2
	}
	be, s := openWith(t, o)
	return c.setOn(t, be, s, seed)
}

// words is the memory of a U32 to write to.
func (st *stage) words(t testing.TB, b *Buffer) []uint32 {
	mem, err := st.be.HostBytes(b)
	require.NoError(t, err)
	return of[uint32](mem)
}

func (c scene) setOn(t testing.TB, be *Backend, s backend.Stream, seed uint64) *stage {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	st := &stage{be: be, s: s}
	tokens, longest := 0, 0
	lens, qlens, offsets := []uint32{}, []uint32{}, []uint32{0}
	for i, n := range c.ctx {
		tokens += c.queries[i]
		longest = max(longest, n)
		lens, qlens, offsets = append(lens, uint32(n)), append(qlens, uint32(c.queries[i])), append(offsets, uint32(tokens))
		st.keys = append(st.keys, randoms(rng, n*c.kvHeads*c.kDim))
		st.values = append(st.values, randoms(rng, n*c.kvHeads*c.vDim))
	}
	for i := range c.ctx {
		if n := c.shared(i); n > 0 {
			copy(st.keys[i][:n*c.kvHeads*c.kDim], st.keys[c.prefixes[i].from])
			copy(st.values[i][:n*c.kvHeads*c.vDim], st.values[c.prefixes[i].from])
		}
	}
	st.q = rounded(c.act, randoms(rng, tokens*c.qHeads*c.kDim))
	st.slopes, st.logits = randoms(rng, c.qHeads), randoms(rng, c.qHeads)
	for i := range st.slopes { // as models have them: above a score of 100 a float32 is coarser than the tolerance
		st.slopes[i] = float32(math.Abs(float64(st.slopes[i]))) / 4
	}

	block, blocks, stride := c.block, 0, 0
	if block == 0 {
		block, blocks = longest+3, len(c.ctx)
	} else {
		stride = (longest+block-1)/block + 1
		blocks = len(c.ctx)*stride + 2
	}
	view := backend.CacheView[*Buffer]{Blocks: blocks, KVHeads: c.kvHeads, BlockSize: block}
	nan := func(n int) []float32 { // slots that no token is in must not matter
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(math.NaN())
		}
		return out
	}
	k, v := nan(blocks*c.kvHeads*block*c.kDim), nan(blocks*c.kvHeads*block*c.vDim)
	ids, order := make([]uint32, len(c.ctx)*stride), rng.Perm(blocks)
	for i := range ids {
		ids[i] = math.MaxUint32 // entries that no token is in must not matter either
	}
	for i, n := range c.ctx {
		st.table = append(st.table, nil)
		for pos := range n {
			id := i
			if stride > 0 {
				if id = order[i*stride+pos/block]; pos < c.shared(i) {
					id = st.table[c.prefixes[i].from][pos/block]
				}
				if c.prefixes != nil || c.seesBlock(i, pos/block) { // nor do those of blocks that no query sees
					ids[i*stride+pos/block] = uint32(id)
				}
			}
			if pos%block == 0 {
				st.table[i] = append(st.table[i], id)
			}
			for h := range c.kvHeads {
				row := (id*c.kvHeads+h)*block + pos%block
				copy(k[row*c.kDim:][:c.kDim], st.keys[i][(pos*c.kvHeads+h)*c.kDim:])
				copy(v[row*c.vDim:][:c.vDim], st.values[i][(pos*c.kvHeads+h)*c.vDim:])
			}
		}
	}
	view.K = planeFrom(t, be, view, c.k, c.kDim, k)
	if view.Latent = c.latent; c.latent {
		view.V.Dim = c.vDim
	} else {
		view.V = planeFrom(t, be, view, c.v, c.vDim, v)
	}
	keys, values := planeOf(view, view.K), plane{}
	values.ofValues(&view)
	for i, n := range c.ctx { // what is stored is what counts
		for pos := range n {
			slot := st.table[i][pos/block]*block + pos%block
			for h := range c.kvHeads {
				portable.decode[c.k](st.keys[i][(pos*c.kvHeads+h)*c.kDim:][:c.kDim], keys.slot(slot, h))
				value := values.slot(slot, h)
				value.decode(st.values[i][(pos*c.kvHeads+h)*c.vDim:][:c.vDim], portable.decode[c.v])
			}
		}
	}

	p := &st.params
	*p = backend.AttendParams[*Buffer]{Cache: view, QHeads: c.qHeads, Scale: 1 / float32(math.Sqrt(float64(c.kDim))), Int8Query: c.int8Query}
	p.Batch = backend.Ragged[*Buffer]{Seqs: len(c.ctx), Tokens: tokens, ContextLens: numbers(t, be, s, backend.U32, lens),
		QueryOffsets: backend.Some(numbers(t, be, s, backend.U32, offsets))}
	if stride > 0 {
		p.Batch.Table, p.Batch.TableStride = backend.Some(numbers(t, be, s, backend.U32, ids)), stride
	}
	p.Q = backend.Dense(floats(t, be, c.act, st.q))
	if c.int8Query {
		for q := st.q; len(q) > 0; q = q[c.kDim:] {
			codes := make([]byte, c.kDim)
			scale, _ := quant.EncodeInt8(codes, q[:c.kDim], false)
			quant.DecodeInt8(q[:c.kDim], codes, scale)
		}
	}
	p.Mask = backend.Mask[*Buffer]{NonCausal: c.mask.nonCausal, Window: c.mask.window, SinkTokens: c.mask.sinks, SoftCap: c.mask.softCap,
		Part: c.mask.part, Residual: c.mask.recent}
	if c.mask.alibi {
		p.Mask.ALiBi = backend.Some(floats(t, be, backend.F32, st.slopes))
	}
	if c.mask.logits {
		p.Mask.SinkLogits = backend.Some(floats(t, be, backend.F32, st.logits))
	}
	p.Out.Rows = backend.Dense(floats(t, be, c.act, nan(tokens*c.qHeads*c.vDim)))
	p.Out.LSE = backend.Some(floats(t, be, backend.F32, nan(tokens*c.qHeads)))
	if c.mass {
		p.Out.Scores = backend.Some(floats(t, be, backend.F32, make([]float32, blocks*c.kvHeads*block)))
	}
	st.shape = backend.AttendShape{QHeads: c.qHeads, KVHeads: c.kvHeads, KDim: c.kDim, VDim: c.vDim, BlockSize: block,
		Format: backend.Format{Act: c.act, K: c.k, V: c.v}, Latent: c.latent, ContextLens: lens, QueryLens: qlens,
		NonCausal: c.mask.nonCausal, Window: c.mask.window, SinkTokens: c.mask.sinks, Scores: c.mass,
		Part: c.mask.part, Residual: c.mask.recent}
	if c.prefixes != nil {
		st.shape.Table, st.shape.TableStride, st.shape.MinShared = ids, stride, c.minShared
	}
	st.plan(t)
	return st
}

// plan plans the stage's call and uploads the work.
func (st *stage) plan(t testing.TB) {
	t.Helper()
	plan, err := st.be.PlanAttend(st.shape)
	require.NoError(t, err)
	st.params.Plan = plan
	st.params.Work = backend.Some(numbers(t, st.be, st.s, backend.U32, plan.Work))
	if plan.Workspace > 0 {
		space, err := st.be.Alloc(backend.F32, plan.Workspace)
		require.NoError(t, err)
		st.params.Workspace = backend.Some(space)
	}
}

// attend runs the call and returns what it wrote, the mass by sequence and key:
// [seqs][ctx, KV heads] one after another.
func (st *stage) attend(t testing.TB) result {
	t.Helper()
	require.NoError(t, st.be.Attend(st.s, st.params))
	r := result{out: values(st.params.Out.Rows.Buf), lse: values(st.params.Out.LSE.Buf)}
	if st.params.Out.Scores.Set {
		mass, v := values(st.params.Out.Scores.Buf), st.params.Cache
		for i, n := range st.shape.ContextLens {
			for pos := range int(n) {
				for h := range v.KVHeads {
					r.mass = append(r.mass, mass[(st.table[i][pos/v.BlockSize]*v.KVHeads+h)*v.BlockSize+pos%v.BlockSize])
				}
			}
		}
	}
	return r
}

// reference computes the scene in float64, one score after another, from the
// words of the contract.
func (st *stage) reference(c scene) result {
	var r result
	group, token, masses := c.qHeads/c.kvHeads, 0, map[[2]int]float64{} // by slot and KV head
	for i, ctx := range c.ctx {
		for query := range c.queries[i] {
			p := ctx - c.queries[i] + query
			for h := range c.qHeads {
				kv := h / group
				scores := make([]float64, ctx)
				top := math.Inf(-1)
				for key := range ctx {
					s := 0.0
					for d := range c.kDim {
						s += float64(st.q[(token*c.qHeads+h)*c.kDim+d]) * float64(st.keys[i][(key*c.kvHeads+kv)*c.kDim+d])
					}
					s *= float64(st.params.Scale)
					if limit := float64(c.mask.softCap); limit > 0 {
						s = limit * math.Tanh(s/limit)
					}
					if c.mask.alibi {
						s += float64(st.slopes[h]) * float64(key-p)
					}
					if !c.mask.sees(p, key, st.shape.BlockSize) {
						s = math.Inf(-1)
					}
					scores[key] = s
					top = max(top, s)
				}
				if c.mask.logits {
					top = max(top, float64(st.logits[h]))
				}
				sum, out := 0.0, make([]float64, c.vDim)
				if c.mask.logits {
					sum = math.Exp(float64(st.logits[h]) - top)
				}
				for key, s := range scores {
					if math.IsInf(s, -1) {
						continue
					}
					e := math.Exp(s - top)
					sum += e
					for d := range out {
						out[d] += e * float64(st.values[i][(key*c.kvHeads+kv)*c.vDim+d])
					}
				}
				for key, s := range scores {
					if !math.IsInf(s, -1) {
						masses[[2]int{st.slot(i, key), kv}] += math.Exp(s-top) / sum
					}
				}
				for _, x := range out {
					if sum > 0 {
						x /= sum
					}
					r.out = append(r.out, float32(x))
				}
				r.lse = append(r.lse, float32(top+math.Log(sum)))
			}
			token++
		}
	}
	for i, ctx := range c.ctx {
		for n := range ctx * c.kvHeads {
			if c.mass {
				r.mass = append(r.mass, float32(masses[[2]int{st.slot(i, n/c.kvHeads), n % c.kvHeads}]))
			}
		}
	}
	return r
}

// slot is where a token of a sequence lies.
func (st *stage) slot(seq, pos int) int {
	block := st.params.Cache.BlockSize
	return st.table[seq][pos/block]*block + pos%block
}

// rounded is x as dt stores it.
func rounded(dt backend.DType, x []float32) []float32 {
	for i := range x {
		x[i] = quant.Round(dt, x[i])
	}
	return x
}

// rowError is the largest error of a row relative to the row's length. The floor is
// where values of unit variance cancel out, as they do in rows of a few dims.
func rowError(got, want []float32, dim int) float64 {
	worst := 0.0
	for ; len(want) > 0; got, want = got[dim:], want[dim:] {
		var diff, norm float64
		for i := range dim {
			d := float64(got[i]) - float64(want[i])
			diff, norm = diff+d*d, norm+float64(want[i])*float64(want[i])
		}
		e := math.Sqrt(diff) / max(math.Sqrt(norm), 0.05*math.Sqrt(float64(dim)))
		if math.IsNaN(e) {
			return math.Inf(1)
		}
		worst = max(worst, e)
	}
	return worst
}
