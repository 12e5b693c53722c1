package cpu

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// cached is a small cache of two heads with operands for every operation on it.
type cached struct {
	be     *Backend
	s      backend.Stream
	append backend.AppendParams[*Buffer]
	rotate backend.RotateParams[*Buffer]
	move   backend.MoveSlotsParams[*Buffer]
	blocks backend.CopyBlocksParams[*Buffer]
	gather backend.GatherParams[*Buffer]
	pack   backend.ConvertBlocksParams[*Buffer] // into the cache, where it is quantized
}

const (
	cacheBlocks, cacheHeads, cacheBlock = 5, 2, 8
	cacheKDim, cacheVDim                = 6, 4
)

func newCached(t testing.TB, be *Backend, s backend.Stream, k, v backend.DType) *cached {
	rng := rand.New(rand.NewPCG(1, 2))
	slots := cacheBlocks * cacheHeads * cacheBlock
	view := backend.CacheView[*Buffer]{Blocks: cacheBlocks, KVHeads: cacheHeads, BlockSize: cacheBlock}
	view.K = planeFrom(t, be, view, k, cacheKDim, randoms(rng, slots*cacheKDim))
	view.V = planeFrom(t, be, view, v, cacheVDim, randoms(rng, slots*cacheVDim))
	view.K.Hadamard = k.Quantized()
	plain := backend.CacheView[*Buffer]{Blocks: cacheBlocks + 1, KVHeads: cacheHeads, BlockSize: cacheBlock}
	slots = plain.Blocks * cacheHeads * cacheBlock
	plain.K = planeFrom(t, be, plain, backend.F32, cacheKDim, randoms(rng, slots*cacheKDim))
	plain.V = planeFrom(t, be, plain, backend.F32, cacheVDim, randoms(rng, slots*cacheVDim))
	gathered := v
	if v.Quantized() {
		gathered = backend.F32
	}
	mass := backend.Some(floats(t, be, backend.F32, randoms(rng, cacheBlocks*cacheHeads*cacheBlock)))
	rope := backend.RoPE{Dims: 4}
	table, err := rope.Table(cacheKDim, 10)
	require.NoError(t, err)
	r := backend.RotaryTable[*Buffer]{Table: backend.Some(floats(t, be, backend.F32, table)), Positions: 10, Dims: 4, Magnitude: 1}
	return &cached{be: be, s: s,
		append: backend.AppendParams[*Buffer]{Cache: view, Tokens: 3,
			K:     backend.Dense(floats(t, be, backend.F32, randoms(rng, 3*cacheHeads*cacheKDim))),
			V:     backend.Dense(floats(t, be, backend.F32, randoms(rng, 3*cacheHeads*cacheVDim))),
			Slots: numbers(t, be, s, backend.I64, []int64{39, -1, 0}), Rotary: r,
			Positions: backend.Some(numbers(t, be, s, backend.U32, []uint32{9, 5, 0})),
			QHeads:    2, Q: backend.Dense(floats(t, be, backend.F32, randoms(rng, 3*2*cacheKDim)))},
		rotate: backend.RotateParams[*Buffer]{Cache: view, N: 3, Rotary: r,
			Slots: numbers(t, be, s, backend.I64, []int64{39, -1, 0}), Deltas: numbers(t, be, s, backend.I32, []int32{9, 99, -9})},
		move:   backend.MoveSlotsParams[*Buffer]{Cache: view, Scores: mass, N: 2, Pairs: numbers(t, be, s, backend.I64, []int64{1, 0, 2, 1})},
		blocks: backend.CopyBlocksParams[*Buffer]{From: view, To: view, FromScores: mass, ToScores: mass, N: 1, Pairs: numbers(t, be, s, backend.U32, []uint32{1, 4})},
		pack:   backend.ConvertBlocksParams[*Buffer]{From: plain, To: view, N: 2, Pairs: numbers(t, be, s, backend.U32, []uint32{5, 1, 0, 4})},
		gather: backend.GatherParams[*Buffer]{Cache: view, Begin: 3, Len: 9, Table: backend.Some(numbers(t, be, s, backend.U32, []uint32{4, 0})),
			K: backend.Some(floats(t, be, backend.F32, make([]float32, 9*cacheHeads*cacheKDim))),
			V: backend.Some(floats(t, be, gathered, make([]float32, 9*cacheHeads*cacheVDim)))},
	}
}

// buffers is the memory of the cache.
func (c *cached) buffers() []*Buffer {
	v := c.append.Cache
	out := []*Buffer{v.K.Data, v.V.Data, c.move.Scores.Buf}
	for _, scales := range []backend.Opt[*Buffer]{v.K.Scales, v.V.Scales} {
		if scales.Set {
			out = append(out, scales.Buf)
		}
	}
	return out
}

// An id outside the cache is reported before anything is written.
func TestIDsOutOfRangeChangeNothing(t *testing.T) {
	be, s := open(t, 2)
	c := newCached(t, be, s, backend.Int8, backend.Int4)
	slots, positions := view[int64](c.append.Slots), view[uint32](c.append.Positions.Buf)
	turned, deltas := view[int64](c.rotate.Slots), view[int32](c.rotate.Deltas)
	moved, copied, table := view[int64](c.move.Pairs), view[uint32](c.blocks.Pairs), view[uint32](c.gather.Table.Buf)
	packed := view[uint32](c.pack.Pairs)
	attempts := map[string]struct {
		spoil func() (restore func())
		run   func() error
	}{
		"slot too high":     {spoil(&slots[2], 40), func() error { return be.Append(s, c.append) }},
		"slot below -1":     {spoil(&slots[2], -2), func() error { return be.Append(s, c.append) }},
		"slot far":          {spoil(&slots[0], math.MaxInt64), func() error { return be.Append(s, c.append) }},
		"position":          {spoil(&positions[2], 10), func() error { return be.Append(s, c.append) }},
		"position of Q":     {spoil(&positions[1], math.MaxUint32), func() error { return be.Append(s, c.append) }},
		"turned slot":       {spoil(&turned[2], 40), func() error { return be.Rotate(s, c.rotate) }},
		"delta forward":     {spoil(&deltas[0], 10), func() error { return be.Rotate(s, c.rotate) }},
		"delta back":        {spoil(&deltas[2], math.MinInt32), func() error { return be.Rotate(s, c.rotate) }},
		"source slot":       {spoil(&moved[2], 40), func() error { return be.MoveSlots(s, c.move) }},
		"destination slot":  {spoil(&moved[3], -1), func() error { return be.MoveSlots(s, c.move) }},
		"source block":      {spoil(&copied[0], 5), func() error { return be.CopyBlocks(s, c.blocks) }},
		"destination block": {spoil(&copied[1], math.MaxUint32), func() error { return be.CopyBlocks(s, c.blocks) }},
		"table entry":       {spoil(&table[1], 5), func() error { return be.Gather(s, c.gather) }},
		"plain block":       {spoil(&packed[2], 6), func() error { return be.ConvertBlocks(s, c.pack) }},
		"packed block":      {spoil(&packed[3], 5), func() error { return be.ConvertBlocks(s, c.pack) }},
	}
	bufs := append(c.buffers(), c.append.Q.Buf, c.gather.K.Buf, c.gather.V.Buf)
	for name, a := range attempts {
		var before [][]byte
		for _, b := range bufs {
			before = append(before, append([]byte(nil), b.mem...))
		}
		restore := a.spoil()
		require.ErrorIs(t, a.run(), backend.ErrArgument{}, name)
		restore()
		for i, b := range bufs {
			require.Equal(t, before[i], b.mem, name)
		}
		require.NoError(t, a.run(), name)
	}
	positions[1] = math.MaxUint32 // of a row that is skipped, and without Q nobody's
	c.append.QHeads = 0
	require.NoError(t, be.Append(s, c.append))
}

func spoil[T any](at *T, v T) func() func() {
	return func() func() {
		old := *at
		*at = v
		return func() { *at = old }
	}
}

// Attend reports lengths, offsets and blocks outside the batch or the cache, and
// leaves the outputs alone.
func TestAttendContentsOutOfRange(t *testing.T) {
	c := scene{qHeads: 2, kvHeads: 1, kDim: 8, vDim: 8, act: backend.F32, k: backend.F32, v: backend.F32,
		ctx: []int{33, 20}, queries: []int{2, 2}, block: 16}
	st := c.set(t, 1)
	lens, offsets := st.words(t, st.params.Batch.ContextLens), st.words(t, st.params.Batch.QueryOffsets.Buf)
	table := st.words(t, st.params.Batch.Table.Buf)
	before := append([]byte(nil), st.params.Out.Rows.Buf.mem...)
	for name, spoil := range map[string]func() func(){
		"context":         spoil(&lens[0], 65),
		"context far":     spoil(&lens[1], math.MaxUint32),
		"offset 0":        spoil(&offsets[0], 1),
		"offset back":     spoil(&offsets[1], 5),
		"offset end":      spoil(&offsets[2], 3),
		"block":           spoil(&table[2], uint32(st.params.Cache.Blocks)),
		"block of second": spoil(&table[st.params.Batch.TableStride+1], math.MaxUint32),
	} {
		restore := spoil()
		require.ErrorIs(t, st.be.Attend(st.s, st.params), backend.ErrArgument{}, name)
		restore()
		require.Equal(t, before, st.params.Out.Rows.Buf.mem, name)
	}
	compare(t, c, st.attend(t), st.reference(c))
}

// A block that no query of the window sees is not looked up: its entry may be stale.
func TestAttendIgnoresBlocksOutsideTheWindow(t *testing.T) {
	c := scene{qHeads: 1, kvHeads: 1, kDim: 8, vDim: 8, act: backend.F32, k: backend.F32, v: backend.F32,
		ctx: []int{100}, queries: []int{2}, block: 8, mask: mask{window: 20, sinks: 3}}
	st := c.set(t, 1)
	for i := 1; i < (98-20+1)/8; i++ {
		view[uint32](st.params.Batch.Table.Buf)[i] = math.MaxUint32
	}
	compare(t, c, st.attend(t), st.reference(c))
}

// A value that no query sees must not matter, be it infinite.
func TestAttendMaskedInfinity(t *testing.T) {
	c := scene{qHeads: 1, kvHeads: 1, kDim: 4, vDim: 4, act: backend.F32, k: backend.F32, v: backend.F32, ctx: []int{12}, queries: []int{12}}
	st := c.set(t, 1)
	want := st.attend(t)
	for i := range 4 {
		view[float32](st.params.Cache.V.Data)[11*4+i] = float32(math.Inf(1))
		view[float32](st.params.Cache.K.Data)[11*4+i] = float32(math.NaN())
	}
	got := st.attend(t)
	require.Equal(t, want.out[:11*4], got.out[:11*4])
	require.True(t, math.IsNaN(float64(got.out[11*4])), "who sees it is told")
}

// Where all keys that a query sees are in one part, the merge is that part's row to the last bit, and so a query's bits do not
// depend on whether others of its step have keys in more parts.
func TestMergeOfOnePart(t *testing.T) {
	be, s := open(t, 1)
	row, none := []float32{float32(math.Copysign(0, -1)), 1, -1e-42, 0.1}, float32(math.Inf(-1))
	for parts := range 3 {
		for at := range parts + 1 {
			in, lse := make([]float32, 4*(parts+1)), []float32{none, none, none}[:parts+1]
			copy(in[4*at:], row)
			lse[at] = -0.75
			out, total := numbers(t, be, s, backend.F32, make([]float32, 4)), numbers(t, be, s, backend.F32, make([]float32, 1))
			require.NoError(t, be.Merge(s, backend.MergeParams[*Buffer]{Parts: parts + 1, Tokens: 1, Heads: 1, Dim: 4,
				In: numbers(t, be, s, backend.F32, in), LSE: numbers(t, be, s, backend.F32, lse), Out: backend.Dense(out), OutLSE: backend.Some(total)}))
			require.Equal(t, backend.BytesOf(row), backend.BytesOf(view[float32](out)))
			require.Equal(t, lse[at:at+1], view[float32](total))
		}
	}
}

// A merge of no rows has nothing that bounds their dims, and needs no scratch for them.
func TestMergeOfNoRows(t *testing.T) {
	be, s := open(t, 1)
	b, out := floats(t, be, backend.F32, make([]float32, 4)), floats(t, be, backend.F32, make([]float32, 4))
	require.NoError(t, be.Merge(s, backend.MergeParams[*Buffer]{Parts: 1, Heads: 1, Dim: math.MaxInt / 2, In: b, LSE: b, Out: backend.Dense(out)}))
}

func TestNoAllocationsWhenWarm(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	scenes := map[string]scene{
		"small":    {ctx: []int{40, 3}, queries: []int{1, 1}, threads: 2},
		"parallel": {ctx: []int{2000, 900}, queries: []int{1, 40}, threads: 3},
		"split":    {ctx: []int{3000}, queries: []int{1}, threads: 4, mass: true},
		"int8":     {ctx: []int{2000, 3}, queries: []int{1, 2}, threads: 2, k: backend.Int8, v: backend.Int8Asym, int8Query: true},
		"rounded":  {ctx: []int{2000, 3}, queries: []int{1, 2}, threads: 2, k: backend.Int8, v: backend.Int8, int8Query: true},
		"int4":     {ctx: []int{2000, 3}, queries: []int{1, 2}, threads: 2, k: backend.Int4, v: backend.Int4G64, int8Query: true},
		"fp8":      {ctx: []int{2000, 3}, queries: []int{1, 2}, threads: 2, k: backend.FP8E4M3, v: backend.FP8E5M2, mass: true},
	}
	for name, c := range scenes {
		t.Run(name, func(t *testing.T) {
			c.qHeads, c.kvHeads, c.kDim, c.vDim, c.block = 4, 2, 32, 32, 16
			c.act = backend.F32
			if c.k == backend.Invalid {
				c.k, c.v = backend.F16, backend.BF16
			}
			if c.mass {
				c.kvHeads = 1
			}
			st := c.set(t, 1)
			be, s := st.be, st.s
			ops := newCached(t, be, s, c.k, c.v)
			unpack := backend.ConvertBlocksParams[*Buffer]{From: ops.pack.To, To: ops.pack.From, N: 2, Pairs: numbers(t, be, s, backend.U32, []uint32{1, 5, 4, 0})}
			st.shape.Work = make([]uint32, 0, len(st.params.Plan.Work))
			merge := backend.MergeParams[*Buffer]{Parts: 1, Tokens: 1, Heads: 4, Dim: c.vDim, In: st.params.Out.Rows.Buf, LSE: st.params.Out.LSE.Buf,
				Out: backend.Dense(floats(t, be, backend.F32, make([]float32, 4*c.vDim)))}
			for name, op := range map[string]func() error{
				"plan":   func() error { return second(be.PlanAttend(st.shape)) },
				"attend": func() error { return be.Attend(s, st.params) },
				"append": func() error { return be.Append(s, ops.append) },
				"rotate": func() error { return be.Rotate(s, ops.rotate) },
				"gather": func() error { return be.Gather(s, ops.gather) },
				"move":   func() error { return be.MoveSlots(s, ops.move) },
				"blocks": func() error { return be.CopyBlocks(s, ops.blocks) },
				"pack":   func() error { return be.ConvertBlocks(s, ops.pack) },
				"unpack": func() error { return be.ConvertBlocks(s, unpack) },
				"merge":  func() error { return be.Merge(s, merge) },
				"fill":   func() error { return be.Fill(s, st.params.Out.LSE.Buf, 0, 1, 1) },
				"upload": func() error { return be.Upload(s, st.params.Out.LSE.Buf, 0, make([]byte, 4)) },
			} {
				if !c.k.Quantized() && strings.HasSuffix(name, "pack") {
					continue
				}
				require.NoError(t, op(), name)
				require.Zero(t, testing.AllocsPerRun(20, func() { _ = op() }), name)
			}
		})
	}
}

// Many goroutines, each with its own stream and operands on one device, while
// buffers come and go.
func TestConcurrentUse(t *testing.T) {
	be, _ := open(t, 3)
	var group sync.WaitGroup
	for i, f := range []backend.Format{{K: backend.F16, V: backend.F16}, {K: backend.BF16, V: backend.F32},
		{K: backend.Int8, V: backend.Int4}, {K: backend.Int4Channel, V: backend.FP8E4M3}} {
		c := scene{qHeads: 4, kvHeads: 2, kDim: 16, vDim: 16, act: backend.F32, k: f.K, v: f.V, int8Query: f.K == backend.Int8,
			ctx: []int{300, 40}, queries: []int{3, 40}, block: 16, mass: true}
		group.Go(func() {
			s, err := be.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			st := c.setOn(t, be, s, uint64(i))
			want := st.attend(t)
			for range 5 {
				if err := be.Fill(s, st.params.Out.Scores.Buf, 0, st.params.Out.Scores.Buf.Len(), 0); err != nil {
					t.Error(err)
				}
				got := st.attend(t)
				if !equal(want.out, got.out) || !equal(want.mass, got.mass) {
					t.Error("results depend on what else runs")
				}
				b, err := be.Alloc(backend.F32, 1000)
				if err != nil || be.Free(b) != nil {
					t.Error("alloc and free beside other work")
				}
			}
		})
	}
	group.Wait()
}

func equal(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// Free waits for an operation that uses the buffer; afterwards the operation says so.
func TestFreeDuringAnOperation(t *testing.T) {
	be, s := open(t, 2)
	c := scene{qHeads: 4, kvHeads: 2, kDim: 32, vDim: 32, act: backend.F32, k: backend.F32, v: backend.F32, ctx: []int{2000}, queries: []int{16}}
	st := c.setOn(t, be, s, 1)
	started := make(chan struct{})
	result := make(chan error)
	go func() {
		close(started)
		for {
			if err := be.Attend(s, st.params); err != nil {
				result <- err
				return
			}
		}
	}()
	<-started
	require.NoError(t, be.Free(st.params.Cache.K.Data))
	require.ErrorIs(t, <-result, backend.ErrFreed)
}

// A call without tokens has nothing to do, however many heads it speaks of, and the
// device goes on.
func TestAppendNothing(t *testing.T) {
	be, s := open(t, 2)
	p := newLarge(t, be, s, backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, 16, 16, 8)
	some := p
	p.Tokens, p.QHeads = 0, 1<<54
	require.NoError(t, be.Append(s, p))
	require.NoError(t, be.Append(s, some))
}

// Between calls nothing refers to the rows that the last one read.
func TestScratchForgets(t *testing.T) {
	for _, mass := range []bool{false, true} {
		c := scene{qHeads: 4, kvHeads: 2, kDim: 32, vDim: 32, act: backend.F32, k: backend.F16, v: backend.F16, ctx: []int{300, 3}, queries: []int{1, 2}, block: 16, threads: 2, mass: mass}
		st := c.set(t, 1)
		st.attend(t)
		p := st.be.pool
		all := []*scratch{p.last.Load().scratch}
		for i := range p.scratch {
			all = append(all, p.scratch[i].Load())
		}
		for _, w := range all {
			for _, rows := range [][]stored{w.keys[:chunk], w.values[:chunk]} {
				for _, r := range rows {
					require.Nil(t, r.data)
					require.Nil(t, r.wanted)
				}
			}
		}
	}
}
