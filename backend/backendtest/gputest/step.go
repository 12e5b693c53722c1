package gputest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// step is a decode step of a small model over B, with operands for every operation.
type step[B backend.Buffer] struct {
	be      backend.Backend[B]
	s       backend.Stream
	shape   backend.AttendShape
	append  backend.AppendParams[B]
	attend  backend.AttendParams[B]
	merge   backend.MergeParams[B]
	gather  backend.GatherParams[B]
	copy    backend.CopyBlocksParams[B]
	move    backend.MoveSlotsParams[B]
	convert backend.ConvertBlocksParams[B] // to a cache of int8
	rotate  backend.RotateParams[B]
}

const stepSeqs, stepBlocks, stepBlock, stepHeads, stepDim = 64, 8, 16, 2, 64

// newStep makes a step of 64 sequences that share their blocks, in a cache of zeros.
func newStep[B backend.Buffer](t testing.TB, be backend.Backend[B], f backend.Format) *step[B] {
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
	c.shape = backend.AttendShape{QHeads: 4 * stepHeads, KVHeads: stepHeads, KDim: stepDim, VDim: stepDim, BlockSize: stepBlock, Format: f}
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
	plane := func(dt backend.DType) backend.Plane[B] {
		p := backend.Plane[B]{Data: alloc(dt, slots*stepHeads*stepDim), Dim: stepDim}
		if words, n, _ := dt.Scales(stepBlocks, stepHeads, stepBlock, stepDim); n > 0 {
			p.Scales = backend.Some(alloc(words, n))
		}
		return p
	}
	cacheOf := func(k, v backend.DType) backend.CacheView[B] {
		return backend.CacheView[B]{K: plane(k), V: plane(v), Blocks: stepBlocks, KVHeads: stepHeads, BlockSize: stepBlock}
	}
	cache := cacheOf(f.K, f.V)
	rope := backend.RotaryTable[B]{Table: backend.Some(alloc(backend.F32, 100*stepDim)), Positions: 100, Dims: stepDim, Magnitude: 1}
	dense := func(heads int) backend.Rows[B] { return backend.Dense(alloc(f.Act, stepSeqs*heads*stepDim)) }
	positions, none := alloc(backend.U32, stepSeqs), alloc(backend.I64, 2*stepSeqs)
	c.append = backend.AppendParams[B]{Cache: cache, Tokens: stepSeqs, K: dense(stepHeads), V: dense(stepHeads), Slots: none,
		Rotary: rope, Positions: backend.Some(positions), QHeads: c.shape.QHeads, Q: dense(c.shape.QHeads)}
	c.attend = backend.AttendParams[B]{Cache: cache, Q: c.append.Q, QHeads: c.shape.QHeads, Scale: 1, Plan: plan, Work: backend.Some(u32(plan.Work)),
		Batch: backend.Ragged[B]{Seqs: stepSeqs, Tokens: stepSeqs, Table: backend.Some(u32(table)), TableStride: 4, ContextLens: u32(c.shape.ContextLens)},
		Out:   backend.Outputs[B]{Rows: dense(c.shape.QHeads), LSE: backend.Some(alloc(backend.F32, stepSeqs*c.shape.QHeads))}}
	if plan.Workspace > 0 {
		c.attend.Workspace = backend.Some(alloc(backend.F32, plan.Workspace))
	}
	c.merge = backend.MergeParams[B]{Parts: 1, Tokens: stepSeqs, Heads: c.shape.QHeads, Dim: stepDim, In: c.attend.Out.Rows.Buf,
		LSE: c.attend.Out.LSE.Buf, Out: dense(c.shape.QHeads)}
	gathered := f.K
	if gathered.Quantized() {
		gathered = backend.F32
	}
	c.gather = backend.GatherParams[B]{Cache: cache, Table: c.attend.Batch.Table, Len: 64, K: backend.Some(alloc(gathered, 64*stepHeads*stepDim)),
		V: backend.Some(alloc(backend.F32, 64*stepHeads*stepDim))}
	c.copy = backend.CopyBlocksParams[B]{From: cache, To: cache, Pairs: u32([]uint32{0, 1, 2, 3}), N: 2}
	c.move = backend.MoveSlotsParams[B]{Cache: cache, Pairs: none, N: 1}
	c.convert = backend.ConvertBlocksParams[B]{From: cacheOf(f.Act, f.Act), To: cacheOf(backend.Int8, backend.Int8), Pairs: c.copy.Pairs, N: 2}
	c.rotate = backend.RotateParams[B]{Cache: cache, Slots: none, Deltas: alloc(backend.I32, 1), N: 1, Rotary: rope}
	require.NoError(t, s.Sync())
	return c
}

// operation is what a test does with a device, under a name.
type operation struct {
	name string
	do   func() error
}

// operations is every operation of the step, in an order in which each has something to do.
func (c *step[B]) operations() []operation {
	return []operation{
		{"append", func() error { return c.be.Append(c.s, c.append) }},
		{"attend", func() error { return c.be.Attend(c.s, c.attend) }},
		{"merge", func() error { return c.be.Merge(c.s, c.merge) }},
		{"copy", func() error { return c.be.CopyBlocks(c.s, c.copy) }},
		{"move", func() error { return c.be.MoveSlots(c.s, c.move) }},
		{"rotate", func() error { return c.be.Rotate(c.s, c.rotate) }},
		{"gather", func() error { return c.be.Gather(c.s, c.gather) }},
		{"convert", func() error { return c.be.ConvertBlocks(c.s, c.convert) }},
	}
}

// plan is the division of the step's attention.
func (c *step[B]) plan() error {
	_, err := c.be.PlanAttend(c.shape)
	return err
}

// BenchmarkStep is what the host pays to enqueue an operation of a step of 64 sequences,
// a launch or two.
func BenchmarkStep[B launch.Buffer](b *testing.B, d Device[B]) {
	c := newStep(b, d.open(b), launch.Formats[0])
	operations := append(c.operations(), operation{"plan", c.plan})
	if d.Graphs {
		g, err := backend.Capture(c.be, c.s, c.all)
		require.NoError(b, err)
		defer func() { require.NoError(b, g.Close()) }()
		operations = append(operations, operation{"all", c.all}, operation{"graph of all", g.Launch})
	}
	for _, o := range operations {
		b.Run(o.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := o.do(); err != nil {
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
