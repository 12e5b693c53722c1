package launch

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// buffer is n elements at a place.
type buffer struct {
	dt backend.DType
	n  int
	at Place
}

func (b *buffer) Len() int             { return b.n }
func (b *buffer) DType() backend.DType { return b.dt }
func (b *buffer) Bytes() int64         { return int64(b.n * b.dt.Bits() / 8) }
func (b *buffer) Place() Place         { return b.at }

// statusPlace is where kernels report what they could not quantize.
var statusPlace = Place{777, 0}

func newCalls() *Calls { return &Calls{Status: func() (Place, error) { return statusPlace, nil }} }

// step is a valid call of every operation: two heads of 64 dims. Buffers are numbered by
// their Memory.
type step struct {
	last    uintptr
	append  backend.AppendParams[*buffer]
	attend  backend.AttendParams[*buffer]
	mass    backend.AttendScoresParams[*buffer] // of attend
	merge   backend.MergeParams[*buffer]
	gather  backend.GatherParams[*buffer]
	blocks  backend.CopyBlocksParams[*buffer]
	slots   backend.MoveSlotsParams[*buffer]
	convert backend.ConvertBlocksParams[*buffer] // to a cache of int8 and int4
	rotate  backend.RotateParams[*buffer]
}

func (s *step) buffer(dt backend.DType) *buffer {
	s.last++
	return &buffer{dt, 1 << 20, Place{s.last, 0}}
}

func (s *step) some(dt backend.DType) backend.Opt[*buffer] { return backend.Some(s.buffer(dt)) }

func (s *step) plane(dt backend.DType, dim int) backend.Plane[*buffer] {
	p := backend.Plane[*buffer]{Data: s.buffer(dt), Dim: dim}
	if words, _, _ := dt.Scales(1, 1, 1, 1); words != backend.Invalid {
		p.Scales = s.some(words)
	}
	return p
}

func (s *step) cache(k, v backend.DType, dim int) backend.CacheView[*buffer] {
	return backend.CacheView[*buffer]{K: s.plane(k, dim), V: s.plane(v, dim), Blocks: 8, KVHeads: 2, BlockSize: 16}
}

func newStep(t rapid.TB, f backend.Format) *step {
	s, act := &step{}, f.Act
	cache := s.cache(f.K, f.V, 64)
	dense := func() backend.Rows[*buffer] { return backend.Dense(s.buffer(act)) }
	s.append = backend.AppendParams[*buffer]{Cache: cache, Tokens: 3, K: dense(), V: dense(), Slots: s.buffer(backend.I64)}
	shape := backend.AttendShape{QHeads: 4, KVHeads: 2, KDim: 64, VDim: 64, BlockSize: 16, Format: f,
		ContextLens: []uint32{1000, 20, 30}, QueryLens: []uint32{1, 8, 1}, Scores: true}
	var asked []Kernel
	planned, err := Plan(backend.Caps{Formats: Formats, HeadDims: HeadDims}, shape, func(k Kernel) (int, error) {
		asked = append(asked, k)
		return 100, nil
	})
	require.NoError(t, err)
	require.Contains(t, asked, Attention(plan.Decode, shape.Format, 64, 64))
	s.attend = backend.AttendParams[*buffer]{Cache: cache, Q: dense(), QHeads: 4, Scale: 1, Plan: planned, Work: s.some(backend.U32),
		Batch: backend.Ragged[*buffer]{Seqs: 3, Tokens: 10, Table: s.some(backend.U32), TableStride: 64, ContextLens: s.buffer(backend.U32), QueryOffsets: s.some(backend.U32)},
		Out:   backend.Outputs[*buffer]{Rows: dense(), Scores: s.some(backend.F32)}, Workspace: s.some(backend.F32)}
	s.mass = backend.AttendScoresParams[*buffer]{Cache: cache, Batch: s.attend.Batch, Q: s.attend.Q, QHeads: 4, Scale: 1,
		LSE: s.buffer(backend.F32), LSEOffset: 3, Scores: s.attend.Out.Scores.Buf, Plan: planned, Work: s.attend.Work}
	s.merge = backend.MergeParams[*buffer]{Parts: 2, Tokens: 3, Heads: 4, Dim: 64, In: s.buffer(backend.F32), LSE: s.buffer(backend.F32), Out: dense()}
	s.gather = backend.GatherParams[*buffer]{Cache: cache, Table: s.some(backend.U32), TableOffset: 5, Len: 33, K: s.some(f.K), V: s.some(backend.F32)}
	if f.K.Quantized() {
		s.gather.K = s.some(backend.F32)
	}
	s.blocks = backend.CopyBlocksParams[*buffer]{From: cache, To: cache, Pairs: s.buffer(backend.U32), N: 2}
	s.slots = backend.MoveSlotsParams[*buffer]{Cache: cache, Pairs: s.buffer(backend.I64), N: 2}
	s.convert = backend.ConvertBlocksParams[*buffer]{From: s.cache(act, act, 64), To: s.cache(backend.Int8, backend.Int4, 64), Pairs: s.buffer(backend.U32), N: 2}
	s.rotate = backend.RotateParams[*buffer]{Cache: cache, Slots: s.buffer(backend.I64), Deltas: s.buffer(backend.I32), N: 2, Rotary: s.rope(64)}
	return s
}

func (s *step) rope(dims int) backend.RotaryTable[*buffer] {
	return backend.RotaryTable[*buffer]{Table: s.some(backend.F32), Positions: 100, Dims: dims, Magnitude: 1}
}

// operations is every operation of the step.
func (s *step) operations(c *Calls) map[string]func() error {
	b := s.merge.Out.Buf
	return map[string]func() error{
		"append":     func() error { return Append(c, &s.append) },
		"attend":     func() error { return Attend(c, &s.attend) },
		"mass":       func() error { return AttendScores(c, &s.mass) },
		"merge":      func() error { return Merge(c, &s.merge) },
		"gather":     func() error { return Gather(c, &s.gather) },
		"blocks":     func() error { return CopyBlocks(c, &s.blocks) },
		"slots":      func() error { return MoveSlots(c, &s.slots) },
		"convert":    func() error { return ConvertBlocks(c, &s.convert) },
		"rotate":     func() error { return Rotate(c, &s.rotate) },
		"fill":       func() error { return Fill(c, b, 3, 5, 1) },
		"copy":       func() error { Copy(c, b.at, b.at.Plus(64), 10); return nil },
		"copy bits":  func() error { CopyBits(c, b.at, b.at.Plus(64), 15); return nil },
		"probe":      func() error { ProbeRead(c, b.at, b.at, 64, 1); return nil },
		"multiplies": func() error { ProbeMMA(c, backend.F16, b.at, 64, 1); return nil },
	}
}

// A block of the grid has as many slots as it has threads for: 4 heads of 32 pairs are 16 units of 8.
func TestRotateGrid(t *testing.T) {
	s, c := newStep(t, backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}), newCalls()
	s.rotate.Cache.KVHeads, s.rotate.N = 4, 20
	require.NoError(t, Rotate(c, &s.rotate))
	require.Equal(t, [3]uint32{3, 1, 1}, c.List()[0].Grid)
	s.rotate.Cache.KVHeads = 40
	require.NoError(t, Rotate(c, &s.rotate))
	require.Equal(t, [3]uint32{20, 2, 1}, c.List()[0].Grid)
}

func bitsOf(constants ...int) (out uint32) {
	for _, c := range constants {
		out |= 1 << c
	}
	return out
}

// argsOf is a call's struct of scalars.
func argsOf[T any](c *Call) T { return *(*T)(unsafe.Pointer(&c.Args()[0])) }

// Attention is a launch for each kind of item, a merge and the mass, over the plan's
// lists; they share buffers and constants.
func TestAttendCalls(t *testing.T) {
	c := newCalls()
	s := newStep(t, Formats[3])
	require.NoError(t, Attend(c, &s.attend))
	format := backend.Format{Act: backend.F32, K: backend.F16, V: backend.F16}
	want := []Kernel{Attention(plan.Vector, format, 64, 64), Attention(plan.Decode, format, 64, 64),
		{Op: OpAttendMerge, In: backend.F32}, {Op: OpAttendMass, In: backend.F32, Out: backend.F16, KDim: 64, VDim: 64}}
	next, calls := uint32(0), c.List()
	require.Len(t, calls, len(want))
	for i := range calls {
		call := &calls[i]
		require.Equal(t, want[i], call.Kernel)
		require.Equal(t, bitsOf(abi.Paged, abi.WithTable, abi.WithOffsets, abi.WithFinalLSE, abi.WithPartials), call.Constants)
		require.Equal(t, calls[0].Buffers(), call.Buffers())
		require.EqualValues(t, len(call.Args()), binary.LittleEndian.Uint32(call.Args()))
		args := argsOf[abi.AttendArgs](call)
		require.Equal(t, [3]uint32{args.Items, 2, 1}, call.Grid)
		if call.Kernel.Op == OpAttendMass {
			require.Zero(t, args.First)
			require.EqualValues(t, s.attend.Plan.Items, args.Items)
			continue
		}
		require.Equal(t, next, args.First)
		next += args.Items
	}
	places := calls[0].Buffers()
	require.Len(t, places, abi.AttendBuffers)
	require.Equal(t, s.attend.Workspace.Buf.at, places[abi.AttendFinalLSE])
	require.Equal(t, Place{}, places[abi.AttendALiBi])

	// A contiguous call with everything else that is optional.
	p := s.attend
	p.Batch.Table.Set, p.Mask.SoftCap, p.Mask.ALiBi, p.Mask.SinkLogits = false, 30, s.some(backend.F32), s.some(backend.F32)
	p.Out.LSE, p.Out.LSEOffset, p.Out.Scores.Set = s.some(backend.F32), 7, false
	require.NoError(t, Attend(c, &p))
	require.Len(t, c.List(), 3)
	call := &c.List()[0]
	require.Equal(t, bitsOf(abi.WithOffsets, abi.WithALiBi, abi.WithSinks, abi.WithSoftcap, abi.WithLSE, abi.WithPartials), call.Constants)
	require.Equal(t, p.Out.LSE.Buf.at.Plus(28), call.Buffers()[abi.AttendLSE])

	// A table of one column is contiguous too.
	p.Batch.Table.Set, p.Batch.TableStride = true, 1
	require.NoError(t, Attend(c, &p))
	call = &c.List()[0]
	require.Equal(t, bitsOf(abi.WithTable), call.Constants&bitsOf(abi.WithTable, abi.Paged))

	p.Plan.Workspace--
	require.ErrorContains(t, Attend(c, &p), "plan: a workspace of")
	require.Empty(t, c.List())
}

// A launch of kind Wide has the planes as maps, the one of a latent cache twice, whole rows of it.
func TestWideCallsHaveMaps(t *testing.T) {
	brain := backend.Format{Act: backend.BF16, K: backend.BF16, V: backend.BF16}
	for _, latent := range []bool{false, true} {
		c, s := newCalls(), newStep(t, brain)
		p := s.attend
		p.Cache.K.Dim, p.Cache.V.Dim, p.Cache.KVHeads, p.QHeads = 192, 128, 2, 4
		if latent {
			p.Cache = backend.CacheView[*buffer]{K: s.plane(backend.BF16, 576), V: backend.Plane[*buffer]{Dim: 512}, Latent: true, Blocks: 8, KVHeads: 2, BlockSize: 16}
			p.QHeads = 256
		}
		shape := backend.AttendShape{QHeads: p.QHeads, KVHeads: 2, KDim: p.Cache.K.Dim, VDim: p.Cache.V.Dim, BlockSize: 16, Format: brain,
			Latent: latent, ContextLens: []uint32{1000}, QueryLens: []uint32{100}}
		var err error
		p.Plan, err = Plan(backend.Caps{Formats: Formats, HeadDims: HeadDims, Latent: true, LatentDims: LatentDims}, shape, func(Kernel) (int, error) { return 100, nil })
		require.NoError(t, err)
		p.Batch.Seqs, p.Batch.Tokens, p.Out.Scores.Set = 1, 100, false
		require.NoError(t, Attend(c, &p))
		call := &c.List()[0]
		require.Equal(t, Attention(plan.Wide, brain, p.Cache.K.Dim, p.Cache.V.Dim), call.Kernel)
		keys := Map{p.Cache.K.Data.at, 8 * 2 * 16, uint32(p.Cache.K.Dim), backend.BF16}
		if latent {
			require.Equal(t, []Map{keys, keys}, call.Maps())
			continue
		}
		require.Equal(t, []Map{keys, {p.Cache.V.Data.at, 8 * 2 * 16, 128, backend.BF16}}, call.Maps())
		require.Empty(t, c.List()[1].Maps(), "a merge has none")
	}
}

// The mass alone is the last launch of attention, with log-sum-exps that are not of its workspace.
func TestAttendMassCall(t *testing.T) {
	c := newCalls()
	s := newStep(t, Formats[3])
	require.NoError(t, Attend(c, &s.attend))
	last := c.List()[len(c.List())-1]
	kernel, args, grid := last.Kernel, argsOf[abi.AttendArgs](&last), last.Grid
	args.OutStride = 0
	want := append([]Place(nil), last.Buffers()...)
	want[abi.AttendFinalLSE] = s.mass.LSE.at.Plus(12)
	for _, i := range []int{abi.AttendOut, abi.AttendPartial, abi.AttendPartialLSE} {
		want[i] = Place{}
	}
	require.NoError(t, AttendScores(c, &s.mass))
	require.Len(t, c.List(), 1)
	call := &c.List()[0]
	require.Equal(t, kernel, call.Kernel)
	require.Equal(t, grid, call.Grid)
	require.Equal(t, args, argsOf[abi.AttendArgs](call))
	require.Equal(t, want, call.Buffers())
	require.Equal(t, bitsOf(abi.Paged, abi.WithTable, abi.WithOffsets, abi.WithFinalLSE), call.Constants)

	s.mass.QHeads = 2
	require.ErrorContains(t, AttendScores(c, &s.mass), "attend scores: plan: was not made for these heads")
	require.Empty(t, c.List())
}

func TestGatherCalls(t *testing.T) {
	c := newCalls()
	s := newStep(t, Formats[3])
	require.NoError(t, Gather(c, &s.gather))
	require.Len(t, c.List(), 2)
	for i, want := range []Kernel{{Op: OpGather, In: backend.F16, Out: backend.F16}, {Op: OpGather, In: backend.F16, Out: backend.F32}} {
		call := &c.List()[i]
		require.Equal(t, want, call.Kernel)
		require.Equal(t, bitsOf(abi.WithTable, abi.Wide), call.Constants)
		require.Equal(t, s.gather.Table.Buf.at.Plus(20), call.Buffers()[abi.GatherTable])
		require.Equal(t, [3]uint32{2, 2, 1}, call.Grid)
	}
	s.gather.K.Set, s.gather.Table.Set, s.gather.V.Buf.at.At = false, false, 4
	require.NoError(t, Gather(c, &s.gather))
	require.Len(t, c.List(), 1)
	require.Zero(t, c.List()[0].Constants)
	require.EqualValues(t, 5, argsOf[abi.GatherArgs](&c.List()[0]).Block)
	s.gather.Cache.K.Data.at.At = 8
	require.ErrorIs(t, Gather(c, &s.gather), backend.ErrArgument{})
	require.Empty(t, c.List())
}

// WithRope and WithQueries are what append has, and Wide is what its CUDA kernel asks.
func TestAppendConstants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(Formats[:5]).Draw(rt, "format")
		s := newStep(rt, f)
		p := s.append
		offset := func(name string) int { return rapid.SampledFrom([]int{0, 1, 4, 8, 16}).Draw(rt, name) }
		rope, q := rapid.Bool().Draw(rt, "rope"), rapid.Bool().Draw(rt, "queries")
		dims := rapid.SampledFrom([]int{2, 8, 16, 64}).Draw(rt, "rope dims")
		p.K.Offset, p.K.Stride, p.V.Offset = offset("k"), 128+offset("stride"), offset("v")
		want := uint32(0)
		w := 16 / min(elementSize(f.Act), elementSize(f.K))
		wide := (int64(p.K.Offset)*elementSize(f.Act)|int64(p.V.Offset)*elementSize(f.Act))%16 == 0 && int64(p.K.Stride)%w == 0
		if rope {
			p.Rotary, p.Positions = s.rope(dims), s.some(backend.U32)
			want |= bitsOf(abi.WithRoPE)
			wide = wide && int64(dims/2)%w == 0
			if q {
				p.QHeads, p.Q = 4, backend.Rows[*buffer]{Buf: s.buffer(f.Act), Offset: offset("q"), Stride: 256 + offset("q stride")}
				want |= bitsOf(abi.WithQueries)
				wide = wide && int64(p.Q.Offset)*elementSize(f.Act)%16 == 0 && int64(p.Q.Stride)%w == 0
			}
		}
		if wide {
			want |= bitsOf(abi.Wide)
		}
		c := newCalls()
		require.NoError(rt, Append(c, &p))
		require.Len(rt, c.List(), 1)
		require.Equal(rt, want, c.List()[0].Constants)
		require.Equal(rt, Kernel{Op: OpAppend, In: f.Act, Out: f.K}, c.List()[0].Kernel)
	})
}

// Wide is left out where rows, lengths or places are not whole runs.
func TestWide(t *testing.T) {
	c := newCalls()
	is := func(want bool, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, constant(abi.Wide, want), c.List()[0].Constants&bitsOf(abi.Wide))
	}
	s := newStep(t, Formats[0])
	is(true, Merge(c, &s.merge))
	s.merge.OutLSE = s.some(backend.F32)
	is(true, Merge(c, &s.merge))
	require.Equal(t, bitsOf(abi.Wide, abi.WithLSE), c.List()[0].Constants)
	s.merge.Out.Stride = 4*64 + 4
	is(false, Merge(c, &s.merge))
	s.merge.Out.Stride, s.merge.In.at.At = 0, 4
	is(false, Merge(c, &s.merge))

	is(true, Rotate(c, &s.rotate))
	s.rotate.Rotary.Dims = 8 // 4 pairs, a run has 8
	is(false, Rotate(c, &s.rotate))
	s.rotate.Rotary.Dims, s.rotate.Rotary.Table.Buf.at.At = 16, 8
	is(false, Rotate(c, &s.rotate))

	b := s.buffer(backend.F16)
	is(true, Fill(c, b, 8, 3, 1))
	is(false, Fill(c, b, 7, 3, 1))
	for _, at := range [][2]int64{{0, 0}, {32, 16}, {4, 0}, {0, 4}, {4, 20}} {
		Copy(c, b.at.Plus(at[0]), b.at.Plus(at[1]), 5)
		is((at[0]|at[1])%16 == 0, nil)
	}
}

func TestFillCalls(t *testing.T) {
	c := newCalls()
	b := &buffer{backend.Int4, 100, Place{3, 64}}
	require.NoError(t, Fill(c, b, 10, 7, 0))
	call := &c.List()[0]
	require.Equal(t, []Place{{3, 69}}, call.Buffers())
	require.Equal(t, abi.FillArgs{Size: uint32(len(call.Args())), LastMask: 0x0f, Bytes: 4, Elem: 1}, argsOf[abi.FillArgs](call))
	require.ErrorIs(t, Fill(c, b, 1, 2, 0), backend.ErrArgument{})
	require.Empty(t, c.List())
}

// An operation on nothing launches nothing, also where other operands are bad.
func TestNothingToDo(t *testing.T) {
	c := newCalls()
	s := newStep(t, Formats[0])
	do := s.operations(c)
	s.append.Tokens, s.attend.Batch.Tokens, s.mass.Batch.Tokens, s.merge.Tokens, s.gather.Len, s.blocks.N, s.slots.N, s.convert.N, s.rotate.N = 0, 0, 0, 0, 0, 0, 0, 0, 0
	for _, name := range []string{"append", "attend", "mass", "merge", "gather", "blocks", "slots", "convert", "rotate"} {
		Copy(c, Place{}, Place{}, 1) // what was there before
		require.NoError(t, do[name](), name)
		require.Empty(t, c.List(), name)
	}
	require.NoError(t, Fill(c, s.merge.In, 0, 0, 1))
	require.Empty(t, c.List())
}

// Operands that kernels cannot take leave no call.
func TestUnfitOperands(t *testing.T) {
	c := newCalls()
	s := newStep(t, Formats[0])
	s.append.Cache.K.Data.at.At, s.convert.To.K.Data.at.At = 8, 8 // the planes of all operations
	for _, name := range []string{"append", "attend", "mass", "gather", "blocks", "slots", "convert", "rotate"} {
		err := s.operations(c)[name]()
		require.ErrorIs(t, err, backend.ErrArgument{}, name)
		require.ErrorContains(t, err, "keys: address 0x8", name)
		require.Empty(t, c.List(), name)
	}
	require.NoError(t, Merge(c, &s.merge))
	s.merge.Parts = 1 << 32
	require.ErrorIs(t, Merge(c, &s.merge), backend.ErrUnsupported{})
	require.Empty(t, c.List())
	shape := backend.AttendShape{QHeads: MaxGridY + 1, KVHeads: MaxGridY + 1, KDim: 64, VDim: 64, BlockSize: 16, Format: Formats[0]}
	_, err := Plan(backend.Caps{Formats: Formats, HeadDims: HeadDims}, shape, nil)
	require.ErrorIs(t, err, backend.ErrUnsupported{})
}

func TestCallsAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	c := newCalls()
	for _, f := range []backend.Format{Formats[0], {Act: backend.F16, K: backend.Int8, V: backend.Int4}} {
		for name, do := range newStep(t, f).operations(c) {
			require.NoError(t, do(), name)
			require.NotEmpty(t, c.List(), name)
			require.Zero(t, testing.AllocsPerRun(10, func() { _ = do() }), "allocations of %s", name)
		}
	}
}
