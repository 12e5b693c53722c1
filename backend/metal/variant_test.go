//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// features are the function constants that a call is to have.
type features uint32

func (f features) has(constant int) bool { return f>>constant&1 == 1 }

// with is all of the constants.
func with(constants ...int) (f features) {
	for _, c := range constants {
		f |= 1 << c
	}
	return f
}

// world makes operands with the same values each time, and gives all back.
type world struct {
	testing.TB
	be   *Backend
	s    backend.Stream
	plan func(s backend.AttendShape, f features) (backend.AttendPlan, error)
	rng  *rand.Rand
	int8 bool // attend to a quantized cache
}

func newWorld(t testing.TB, be *Backend) *world {
	s, err := be.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { unlessLost(t, s.Close()) })
	return &world{TB: t, be: be, s: s, rng: rand.New(rand.NewPCG(1, 2)),
		plan: func(s backend.AttendShape, _ features) (backend.AttendPlan, error) { return be.PlanAttend(s) }}
}

// unlessLost fails a test for an error of what gives something back; on a lost device only Close does.
func unlessLost(t testing.TB, err error) {
	if !errors.Is(err, backend.ErrLost) {
		require.NoError(t, err)
	}
}

// place is a buffer with the values of data.
func place[T backend.Number](w *world, dt backend.DType, data ...T) *Buffer {
	b, err := backend.AllocFrom(w.be, w.s, dt, data)
	require.NoError(w, err)
	w.Cleanup(func() { unlessLost(w, w.be.Free(b)) })
	return b
}

// floats is n values between -1 and 1; zeros is n of those.
func (w *world) floats(n int) *Buffer {
	data := make([]float32, n)
	for i := range data {
		data[i] = 2*w.rng.Float32() - 1
	}
	return place(w, backend.F32, data...)
}

func (w *world) zeros(n int) *Buffer { return place(w, backend.F32, make([]float32, n)...) }

func (w *world) read(buffers ...*Buffer) (all []float32) {
	for _, b := range buffers {
		data := make([]float32, b.Len())
		require.NoError(w, backend.Download(w.be, w.s, data, b, 0))
		all = append(all, data...)
	}
	return all
}

// rows is n vectors that begin at the 16 bytes that wide kernels need, or do not.
func (w *world) rows(f features, n int) backend.Rows[*Buffer] {
	if f.has(abi.Wide) {
		return backend.Rows[*Buffer]{Buf: w.floats(n)}
	}
	return backend.Rows[*Buffer]{Buf: w.floats(n + 1), Offset: 1}
}

const dim = 64 // of a head, in all calls here

func (w *world) cache(blocks, block int) backend.CacheView[*Buffer] {
	plane := func() backend.Plane[*Buffer] {
		return backend.Plane[*Buffer]{Data: w.floats(blocks * block * dim), Dim: dim}
	}
	return backend.CacheView[*Buffer]{K: plane(), V: plane(), Blocks: blocks, KVHeads: 1, BlockSize: block}
}

// packed is v in int8, and unpacked is that in f32 again.
func (w *world) packed(v backend.CacheView[*Buffer]) backend.CacheView[*Buffer] {
	plane := func() backend.Plane[*Buffer] {
		scales := backend.Some(w.zeros(v.Blocks * v.BlockSize))
		return backend.Plane[*Buffer]{Data: place(w, backend.Int8, make([]byte, v.Blocks*v.BlockSize*dim)...), Dim: dim, Scales: scales}
	}
	to := v
	to.K, to.V = plane(), plane()
	w.convert(v, to)
	return to
}

func (w *world) unpacked(v backend.CacheView[*Buffer]) backend.CacheView[*Buffer] {
	to := w.cache(v.Blocks, v.BlockSize)
	w.convert(v, to)
	return to
}

func (w *world) convert(from, to backend.CacheView[*Buffer]) {
	var pairs []uint32
	for i := range uint32(from.Blocks) {
		pairs = append(pairs, i, i)
	}
	require.NoError(w, w.be.ConvertBlocks(w.s, backend.ConvertBlocksParams[*Buffer]{From: from, To: to, Pairs: place(w, backend.U32, pairs...), N: from.Blocks}))
}

func (w *world) append(f features, quantized bool) []float32 {
	const tokens = 5
	p := backend.AppendParams[*Buffer]{Cache: w.cache(2, 16), Tokens: tokens, K: w.rows(f, tokens*dim), V: w.rows(f, tokens*dim),
		Slots: place[int64](w, backend.I64, 3, -1, 20, 0, 31)}
	if f.has(abi.WithRoPE) {
		p.Rotary = backend.RotaryTable[*Buffer]{Table: backend.Some(w.floats(8 * dim)), Positions: 8, Dims: dim, Magnitude: 1}
		p.Positions = backend.Some(place[uint32](w, backend.U32, 0, 7, 2, 5, 1))
	}
	q := w.rows(f, tokens*2*dim)
	if f.has(abi.WithQueries) {
		p.QHeads, p.Q = 2, q
	}
	if quantized {
		p.Cache = w.packed(p.Cache)
	}
	require.NoError(w, w.be.Append(w.s, p))
	if quantized {
		p.Cache = w.unpacked(p.Cache)
	}
	return w.read(p.Cache.K.Data, p.Cache.V.Data, q.Buf)
}

func (w *world) gather(f features, quantized bool) []float32 {
	const n = 20
	p := backend.GatherParams[*Buffer]{Cache: w.cache(3, 32), TableOffset: 1, Begin: 5, Len: n, K: backend.Some(w.zeros(n * dim)), V: backend.Some(w.zeros(n * dim))}
	if f.has(abi.WithTable) {
		p.Table = backend.Some(place[uint32](w, backend.U32, 9, 2, 0))
	}
	if quantized {
		p.Cache = w.packed(p.Cache)
	}
	require.NoError(w, w.be.Gather(w.s, p))
	return w.read(p.K.Buf, p.V.Buf)
}

func (w *world) merge(f features) []float32 {
	const parts, tokens = 3, 4
	p := backend.MergeParams[*Buffer]{Parts: parts, Tokens: tokens, Heads: 1, Dim: dim, In: w.floats(parts * tokens * dim), LSE: w.floats(parts * tokens),
		Out: w.rows(f, tokens*dim)}
	lse := w.zeros(tokens)
	if f.has(abi.WithLSE) {
		p.OutLSE = backend.Some(lse)
	}
	require.NoError(w, w.be.Merge(w.s, p))
	return w.read(p.Out.Buf, lse)
}

func (w *world) attend(f features) []float32 {
	const qHeads, block, stride = 2, 16, 38
	format := backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}
	if w.int8 {
		format.K, format.V = backend.Int8, backend.Int8
	}
	lens := []uint32{600, 280}
	shape := backend.AttendShape{QHeads: qHeads, KVHeads: 1, KDim: dim, VDim: dim, BlockSize: 608, Format: format,
		ContextLens: lens, QueryLens: []uint32{1, 1}, Scores: f.has(abi.WithFinalLSE)}
	p := backend.AttendParams[*Buffer]{QHeads: qHeads, Scale: 0.125, Q: backend.Dense(w.floats(2 * qHeads * dim)),
		Batch: backend.Ragged[*Buffer]{Seqs: 2, Tokens: 2, ContextLens: place(w, backend.U32, lens...)},
		Out:   backend.Outputs[*Buffer]{Rows: backend.Dense(w.zeros(2 * qHeads * dim))}}
	switch {
	case f.has(abi.Paged):
		shape.BlockSize = block
		table := make([]uint32, 2*stride)
		for i, id := range w.rng.Perm(len(table)) {
			table[i] = uint32(id)
		}
		p.Batch.Table, p.Batch.TableStride = backend.Some(place(w, backend.U32, table...)), stride
	case f.has(abi.WithTable):
		p.Batch.Table, p.Batch.TableStride = backend.Some(place[uint32](w, backend.U32, 1, 0)), 1
	}
	p.Cache = w.cache(2*stride*block/shape.BlockSize, shape.BlockSize)
	if w.int8 {
		p.Cache = w.packed(p.Cache)
	}
	if f.has(abi.WithOffsets) {
		p.Batch.QueryOffsets = backend.Some(place[uint32](w, backend.U32, 0, 1, 2))
	}
	if f.has(abi.WithViews) {
		shape.Views = []uint32{300, 200, 100, 280}
		p.Batch.Views = backend.Some(place(w, backend.U32, shape.Views...))
	}
	if f.has(abi.WithTree) { // each is a branch without itself
		shape.TreeWords, p.Batch.TreeWords = 1, 1
		p.Batch.Tree = backend.Some(place[uint32](w, backend.U32, 2, 2))
	}
	if f.has(abi.WithALiBi) {
		p.Mask.ALiBi = backend.Some(place[float32](w, backend.F32, 0.5, 0.25))
	}
	if f.has(abi.WithSinks) {
		p.Mask.SinkLogits = backend.Some(place[float32](w, backend.F32, 4, 7))
	}
	if f.has(abi.WithSoftcap) {
		p.Mask.SoftCap = 0.5
	}
	lse, mass := w.zeros(2*qHeads), w.zeros(2*stride*block)
	if f.has(abi.WithLSE) {
		p.Out.LSE = backend.Some(lse)
	}
	if f.has(abi.WithFinalLSE) {
		p.Out.Scores = backend.Some(mass)
	}
	var err error
	p.Plan, err = w.plan(shape, f)
	require.NoError(w, err)
	p.Work = backend.Some(place(w, backend.U32, p.Plan.Work...))
	if p.Plan.Workspace > 0 {
		p.Workspace = backend.Some(w.zeros(p.Plan.Workspace))
	}
	require.NoError(w, w.be.Attend(w.s, p))
	return w.read(p.Out.Rows.Buf, lse, mass)
}

// call is an operation with some features.
func (w *world) call(op string, f features) []float32 {
	w.rng = rand.New(rand.NewPCG(3, 4))
	switch op {
	case "append", "append int8":
		return w.append(f, op != "append")
	case "gather", "gather int8":
		return w.gather(f, op != "gather")
	case "merge":
		return w.merge(f)
	}
	return w.attend(f)
}

// A pipeline is found by all that it depends on: each operand that a call may leave out
// changes it, and with or without, whichever comes first, the result is that of a backend that
// was asked for nothing else. That this is right is the conformance suite's to say.
func TestPipelinesByConstants(t *testing.T) {
	paged := with(abi.Paged, abi.WithTable)
	for _, c := range []struct {
		op            string
		base, feature features
	}{
		{"append", with(abi.Wide), with(abi.WithRoPE)}, {"append", with(abi.Wide, abi.WithRoPE), with(abi.WithQueries)}, {"append", 0, with(abi.Wide)},
		{"append int8", with(abi.Wide), with(abi.WithRoPE)}, {"append int8", with(abi.Wide, abi.WithRoPE), with(abi.WithQueries)}, {"append int8", 0, with(abi.Wide)},
		{"gather", 0, with(abi.WithTable)}, {"gather int8", 0, with(abi.WithTable)},
		{"merge", with(abi.Wide), with(abi.WithLSE)}, {"merge", 0, with(abi.Wide)},
		{"attend", 0, with(abi.WithTable)}, {"attend", 0, paged}, {"attend", paged, with(abi.WithOffsets)}, {"attend", paged, with(abi.WithALiBi)},
		{"attend", paged, with(abi.WithSinks)}, {"attend", paged, with(abi.WithSoftcap)}, {"attend", paged, with(abi.WithLSE)},
		{"attend", paged, with(abi.WithFinalLSE)}, {"attend", paged, with(abi.WithPartials)},
		{"attend", paged, with(abi.WithViews)}, {"attend", paged, with(abi.WithTree)},
	} {
		calls := []features{c.base, c.base | c.feature}
		fresh := func(t *testing.T) *world {
			w := newWorld(t, open(t))
			w.plan = func(s backend.AttendShape, f features) (backend.AttendPlan, error) {
				blocks := 1
				if f.has(abi.WithPartials) {
					blocks = 1000
				}
				p, err := plan.Attend(s, plan.Capacity{blocks, blocks, blocks}.Resident)
				require.Equal(t, f.has(abi.WithPartials), p.Parts > 0)
				return p, err
			}
			return w
		}
		want := map[features][]float32{}
		for _, f := range calls {
			want[f] = fresh(t).call(c.op, f)
		}
		if c.feature != with(abi.Wide) && c.feature != with(abi.WithPartials) && c.feature != with(abi.WithOffsets) {
			require.NotEqual(t, want[calls[0]], want[calls[1]], "what is left out does something")
		}
		for _, order := range [][]int{{0, 1, 0}, {1, 0, 1}} {
			t.Run(fmt.Sprintf("%s %#x %#x %v", c.op, c.base, c.feature, order), func(t *testing.T) {
				w := fresh(t)
				var made []int
				for _, i := range order {
					require.InDeltaSlice(t, want[calls[i]], w.call(c.op, calls[i]), 2e-5)
					if n, known := pipelines(); known {
						made = append(made, n)
					}
				}
				if len(made) > 0 {
					require.Greater(t, made[1], made[0], "another one")
					require.Equal(t, made[2], made[1], "that was there")
				}
			})
		}
	}
}
