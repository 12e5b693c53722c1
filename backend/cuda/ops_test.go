//go:build linux && cgo && !nocuda

package cuda

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// step is a decode step of a small model over B, with operands for every operation.
type step[B backend.Buffer] struct {
	be     backend.Backend[B]
	s      backend.Stream
	shape  backend.AttendShape
	append backend.AppendParams[B]
	attend backend.AttendParams[B]
	merge  backend.MergeParams[B]
	gather backend.GatherParams[B]
	copy   backend.CopyBlocksParams[B]
	move   backend.MoveSlotsParams[B]
	rotate backend.RotateParams[B]
}

const stepSeqs, stepBlocks, stepBlock, stepHeads, stepDim = 64, 8, 16, 2, 64

// newStep makes a step of 64 sequences that share their blocks.
func newStep[B backend.Buffer](t testing.TB, be backend.Backend[B]) *step[B] {
	s, err := be.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	alloc := func(dt backend.DType, n int) B {
		b, err := be.Alloc(dt, n)
		require.NoError(t, err)
		require.NoError(t, be.Fill(s, b, 0, n, 0))
		t.Cleanup(func() { require.NoError(t, be.Free(b)) })
		return b
	}
	u32 := func(v []uint32) B {
		b := alloc(backend.U32, len(v))
		require.NoError(t, backend.Upload(be, s, b, 0, v))
		return b
	}
	c := &step[B]{be: be, s: s}
	c.shape = backend.AttendShape{QHeads: 4 * stepHeads, KVHeads: stepHeads, KDim: stepDim, VDim: stepDim, BlockSize: stepBlock, Format: launch.Formats[0]}
	var table []uint32
	for i := range uint32(stepSeqs) {
		c.shape.ContextLens, c.shape.QueryLens = append(c.shape.ContextLens, 1+i), append(c.shape.QueryLens, 1)
		for j := range uint32(4) {
			table = append(table, (i+j)%stepBlocks)
		}
	}
	c.shape.ContextLens[0] = 64
	plan, err := be.PlanAttend(c.shape)
	require.NoError(t, err)
	c.shape.Work = make([]uint32, 0, len(plan.Work))

	const slots = stepBlocks * stepBlock
	plane := func() backend.Plane[B] {
		return backend.Plane[B]{Data: alloc(backend.F16, slots*stepHeads*stepDim), Dim: stepDim}
	}
	cache := backend.CacheView[B]{K: plane(), V: plane(), Blocks: stepBlocks, KVHeads: stepHeads, BlockSize: stepBlock}
	rope := backend.Rope[B]{Table: backend.Some(alloc(backend.F32, 100*stepDim)), Positions: 100, Dims: stepDim, Magnitude: 1}
	dense := func(heads int) backend.Rows[B] { return backend.Dense(alloc(backend.F16, stepSeqs*heads*stepDim)) }
	positions, none := alloc(backend.U32, stepSeqs), alloc(backend.I64, 2*stepSeqs)
	c.append = backend.AppendParams[B]{Cache: cache, Tokens: stepSeqs, K: dense(stepHeads), V: dense(stepHeads), Slots: none,
		Rope: rope, Positions: backend.Some(positions), QHeads: c.shape.QHeads, Q: dense(c.shape.QHeads)}
	c.attend = backend.AttendParams[B]{Cache: cache, Q: c.append.Q, QHeads: c.shape.QHeads, Scale: 1, Plan: plan, Work: backend.Some(u32(plan.Work)),
		Batch: backend.Ragged[B]{Seqs: stepSeqs, Tokens: stepSeqs, Table: backend.Some(u32(table)), TableStride: 4, ContextLens: u32(c.shape.ContextLens)},
		Out:   backend.Outputs[B]{Rows: dense(c.shape.QHeads), LSE: backend.Some(alloc(backend.F32, stepSeqs*c.shape.QHeads))}}
	if plan.Workspace > 0 {
		c.attend.Workspace = backend.Some(alloc(backend.F32, plan.Workspace))
	}
	c.merge = backend.MergeParams[B]{Parts: 1, Tokens: stepSeqs, Heads: c.shape.QHeads, Dim: stepDim, In: c.attend.Out.Rows.Buf,
		LSE: c.attend.Out.LSE.Buf, Out: dense(c.shape.QHeads)}
	c.gather = backend.GatherParams[B]{Cache: cache, Table: c.attend.Batch.Table, Len: 64, K: backend.Some(alloc(backend.F16, 64*stepHeads*stepDim)),
		V: backend.Some(alloc(backend.F32, 64*stepHeads*stepDim))}
	c.copy = backend.CopyBlocksParams[B]{Cache: cache, Pairs: u32([]uint32{0, 1, 2, 3}), N: 2}
	c.move = backend.MoveSlotsParams[B]{Cache: cache, Pairs: none, N: 1}
	c.rotate = backend.RotateParams[B]{Cache: cache, Slots: none, Deltas: alloc(backend.I32, 1), N: 1, Rope: rope}
	require.NoError(t, s.Sync())
	return c
}

// operations is every operation of the step.
func (c *step[B]) operations() map[string]func() error {
	return map[string]func() error{
		"append": func() error { return c.be.Append(c.s, c.append) },
		"plan":   func() error { _, err := c.be.PlanAttend(c.shape); return err },
		"attend": func() error { return c.be.Attend(c.s, c.attend) },
		"merge":  func() error { return c.be.Merge(c.s, c.merge) },
		"gather": func() error { return c.be.Gather(c.s, c.gather) },
		"copy":   func() error { return c.be.CopyBlocks(c.s, c.copy) },
		"move":   func() error { return c.be.MoveSlots(c.s, c.move) },
		"rotate": func() error { return c.be.Rotate(c.s, c.rotate) },
	}
}

func testAllocations[B backend.Buffer](t *testing.T, be backend.Backend[B]) {
	c := newStep(t, be)
	for name, do := range c.operations() {
		require.NoError(t, do(), name)
		require.Zero(t, testing.AllocsPerRun(10, func() {
			if do() != nil {
				t.Fail()
			}
		}), "allocations of %s", name)
	}
	require.NoError(t, c.s.Sync())
}

// No operation allocates on the Go heap, also not in its erased form.
func TestOperationsAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	be := open(t)
	t.Run("typed", func(t *testing.T) { testAllocations[*Buffer](t, be) })
	t.Run("erased", func(t *testing.T) { testAllocations(t, backend.Erase[*Buffer](be)) })
}

// A family of kernels is loaded when one of its kernels is first used, once, by
// however many goroutines.
func TestFamiliesLoadWhenUsed(t *testing.T) {
	be := open(t)
	require.Empty(t, be.modules.loaded)
	var wait sync.WaitGroup
	found := make([]*kernel, 8)
	for i := range found {
		wait.Go(func() { found[i], _ = be.modules.find(launch.Kernel{Op: launch.OpCopyBlocks}) })
	}
	wait.Wait()
	for _, k := range found {
		require.NotNil(t, k)
		require.Same(t, found[0], k)
	}
	require.Len(t, be.modules.loaded, 1)
	require.Positive(t, found[0].resident)
	other, err := be.modules.find(launch.Kernel{Op: launch.OpMoveSlots})
	require.NoError(t, err)
	require.NotEqual(t, found[0].fn, other.fn)
	require.Len(t, be.modules.loaded, 1, "of one family")
}

// What kernels cannot do is an error before anything is launched.
func TestOperandsThatKernelsCannotTake(t *testing.T) {
	be := open(t)
	c := newStep[*Buffer](t, be)
	shape := func(err error, words string) {
		require.ErrorIs(t, err, backend.ErrShape{})
		require.ErrorContains(t, err, words)
	}
	// imported wraps a buffer from a byte within it on.
	imported := func(b *Buffer, offset, n int) *Buffer {
		h, err := be.Handle(b)
		require.NoError(t, err)
		h.Addr += uintptr(offset)
		out, err := be.Import(h, b.DType(), n)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, be.Free(out)) })
		return out
	}

	p := c.attend
	p.Q.Buf = imported(p.Q.Buf, 2, p.Q.Buf.Len()-1)
	p.Batch.Seqs, p.Batch.Tokens = stepSeqs-1, stepSeqs-1
	s := c.shape
	s.ContextLens, s.QueryLens, s.Work = s.ContextLens[1:], s.QueryLens[1:], nil
	var err error
	p.Plan, err = be.PlanAttend(s)
	require.NoError(t, err)
	shape(be.Attend(c.s, p), "q: address")

	p = c.attend
	p.Out.Rows.Stride = c.shape.QHeads*stepDim + 4
	big, err := be.Alloc(backend.F16, stepSeqs*p.Out.Rows.Stride)
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Free(big)) }()
	p.Out.Rows.Buf = big
	shape(be.Attend(c.s, p), "out: address")

	p = c.attend
	p.Cache.Blocks--
	p.Cache.K.Data = imported(p.Cache.K.Data, 8, p.Cache.K.Data.Len()-4)
	shape(be.Attend(c.s, p), "keys: address")
	copied := c.copy
	copied.Cache = p.Cache
	shape(be.CopyBlocks(c.s, copied), "keys: address")

	p = c.attend
	p.Plan.Work = p.Plan.Work[:len(p.Plan.Work)-1]
	shape(be.Attend(c.s, p), "plan: its work has")
	p.Plan.Work = nil
	shape(be.Attend(c.s, p), "call PlanAttend")

	s = c.shape
	s.QHeads, s.KVHeads = launch.MaxGridY+1, launch.MaxGridY+1
	_, err = be.PlanAttend(s)
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	require.NoError(t, c.s.Sync())
}

// BenchmarkStep64 is what the host pays to enqueue an operation of a step of 64
// sequences, a launch or two.
func BenchmarkStep64(b *testing.B) {
	c := newStep[*Buffer](b, open(b))
	for name, do := range c.operations() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := do(); err != nil {
					b.Fatal(err)
				}
				if i%1000 == 999 { // a queue that is not endless
					b.StopTimer()
					require.NoError(b, c.s.Sync())
					b.StartTimer()
				}
			}
			require.NoError(b, c.s.Sync())
		})
	}
}
