//go:build linux && cgo && !nocuda

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// The shape of a layer in all benchmarks: a Llama of 8 billion parameters.
const (
	benchKVHeads = 8
	benchQHeads  = 32
	benchDim     = 128
	benchBlock   = 16
	benchWidth   = benchKVHeads * benchDim // elements of a token's keys, and of its values
)

// What the device reaches with nothing to compute, and with nothing to move.
func BenchmarkDevice(b *testing.B) {
	r := newBench(b)
	defer r.close()
	for _, c := range []struct {
		name, unit  string
		rate, scale float64
	}{
		{"copy", "GB/s", measured.copy, 1e9}, {"read", "GB/s", measured.read, 1e9},
		{"matrix/f16", "TFLOP/s", measured.f16, 1e12}, {"matrix/bf16", "TFLOP/s", measured.bf16, 1e12},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(c.rate/c.scale, c.unit)
		})
	}
	require.NoError(b, r.s.Sync())
}

// cache is layers of a cache of that many slots in blocks. A call finds nothing of the
// one before it in the device's own caches: together they exceed those, or there is
// one for each call that is timed.
func (r *bench) cache(dt backend.DType, slots, block int) []backend.CacheView[*Buffer] {
	const exceeds = 256 << 20
	layer := 2 * slots * benchWidth * dt.Bits() / 8
	layers := make([]backend.CacheView[*Buffer], r.size(min(1+exceeds/layer, calls), 1))
	for i := range layers {
		plane := func() backend.Plane[*Buffer] {
			return backend.Plane[*Buffer]{Data: r.random(dt, slots*benchWidth), Dim: benchDim}
		}
		layers[i] = backend.CacheView[*Buffer]{K: plane(), V: plane(), Blocks: slots / block, KVHeads: benchKVHeads, BlockSize: block}
	}
	return layers
}

// shuffled is n block ids in random order, as in a pool that was used for a while.
func shuffled(n int) []uint32 {
	ids := make([]uint32, n)
	for i, id := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		ids[i] = uint32(id)
	}
	return ids
}

// slotsOf is the slots of n tokens in shuffled blocks.
func slotsOf(n int) []int64 {
	ids := shuffled((n + benchBlock - 1) / benchBlock)
	slots := make([]int64, n)
	for i := range slots {
		slots[i] = int64(ids[i/benchBlock])*benchBlock + int64(i%benchBlock)
	}
	return slots
}

// New keys and values, read once and written once.
func BenchmarkAppend(b *testing.B) {
	r := newBench(b)
	defer r.close()
	for _, tokens := range []int{r.size(64, 16), r.size(4096, 64)} {
		layers := r.cache(backend.F16, tokens, benchBlock)
		fresh := r.random(backend.F16, 2*tokens*benchWidth)
		slots := upload(r, backend.I64, slotsOf(tokens))
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			r.run(b, moved(2*2*tokens*benchWidth*2), func(turn int) error {
				return r.be.Append(r.s, backend.AppendParams[*Buffer]{Cache: layers[turn%len(layers)], Tokens: tokens,
					K: backend.Dense(fresh), V: backend.Rows[*Buffer]{Buf: fresh, Offset: tokens * benchWidth}, Slots: slots})
			})
		})
	}
}

// One sequence from its blocks into one piece.
func BenchmarkGather(b *testing.B) {
	r := newBench(b)
	defer r.close()
	tokens := r.size(8192, 64)
	layers := r.cache(backend.F16, tokens, benchBlock)
	k, v := r.alloc(backend.F16, tokens*benchWidth), r.alloc(backend.F16, tokens*benchWidth)
	table := upload(r, backend.U32, shuffled(tokens/benchBlock))
	b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
		r.run(b, moved(2*2*tokens*benchWidth*2), func(turn int) error {
			return r.be.Gather(r.s, backend.GatherParams[*Buffer]{Cache: layers[turn%len(layers)], Table: backend.Some(table),
				Len: tokens, K: backend.Some(k), V: backend.Some(v)})
		})
	})
}

// Blocks and slots from one half of a layer to the other.
func BenchmarkMove(b *testing.B) {
	r := newBench(b)
	defer r.close()
	blocks := r.size(512, 4)
	layers := r.cache(backend.F16, 2*blocks*benchBlock, benchBlock)
	var pairs []uint32
	var slots []int64
	for i, id := range shuffled(blocks) {
		pairs = append(pairs, uint32(i), uint32(blocks)+id)
		for t := range int64(benchBlock) {
			slots = append(slots, int64(i)*benchBlock+t, int64(uint32(blocks)+id)*benchBlock+t)
		}
	}
	ofBlocks, ofSlots := upload(r, backend.U32, pairs), upload(r, backend.I64, slots)
	bytes := 2 * 2 * blocks * benchBlock * benchWidth * 2
	b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
		r.run(b, moved(bytes), func(turn int) error {
			return r.be.CopyBlocks(r.s, backend.CopyBlocksParams[*Buffer]{Cache: layers[turn%len(layers)], Pairs: ofBlocks, N: blocks})
		})
	})
	b.Run(fmt.Sprintf("slots=%d", blocks*benchBlock), func(b *testing.B) {
		r.run(b, moved(bytes), func(turn int) error {
			return r.be.MoveSlots(r.s, backend.MoveSlotsParams[*Buffer]{Cache: layers[turn%len(layers)], Pairs: ofSlots, N: blocks * benchBlock})
		})
	})
}

// Keys in place, as a sequence is shifted.
func BenchmarkRotate(b *testing.B) {
	r := newBench(b)
	defer r.close()
	tokens := r.size(8192, 64)
	layers := r.cache(backend.F16, tokens, benchBlock)
	const positions = 512
	table, err := backend.RoPE{}.Table(benchDim, positions)
	require.NoError(b, err)
	deltas := make([]int32, tokens)
	for i := range deltas {
		deltas[i] = -100
	}
	slots, by := upload(r, backend.I64, slotsOf(tokens)), upload(r, backend.I32, deltas)
	rope := backend.Rope[*Buffer]{Table: backend.Some(upload(r, backend.F32, table)), Positions: positions, Dims: benchDim, Magnitude: 1}
	b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
		r.run(b, moved(2*tokens*benchWidth*2), func(turn int) error {
			return r.be.Rotate(r.s, backend.RotateParams[*Buffer]{Cache: layers[turn%len(layers)], Slots: slots, Deltas: by, N: tokens, Rope: rope})
		})
	})
}

// Partial results of 8 parts of the context.
func BenchmarkMerge(b *testing.B) {
	r := newBench(b)
	defer r.close()
	const parts = 8
	tokens := r.size(512, 4)
	rows := tokens * benchQHeads
	in, lse, out := r.random(backend.F32, parts*rows*benchDim), r.random(backend.F32, parts*rows), r.alloc(backend.F16, rows*benchDim)
	b.Run(fmt.Sprintf("parts=%d/tokens=%d", parts, tokens), func(b *testing.B) {
		r.run(b, moved(parts*rows*(benchDim+1)*4+rows*benchDim*2), func(int) error {
			return r.be.Merge(r.s, backend.MergeParams[*Buffer]{Parts: parts, Tokens: tokens, Heads: benchQHeads, Dim: benchDim,
				In: in, LSE: lse, Out: backend.Dense(out)})
		})
	})
}

// attention is a step of equal sequences.
type benchAttention struct {
	dt                      backend.DType
	batch, context, queries int // sequences, tokens in the cache and query tokens of each
	qHeads, block           int // block 0: contiguous
}

// set prepares a call of Attend.
func (a benchAttention) set(r *bench) func(turn int) error {
	block := a.block
	if block == 0 {
		block = a.context
	}
	tokens, stride := a.batch*a.queries, a.context/block
	shape := backend.AttendShape{QHeads: a.qHeads, KVHeads: benchKVHeads, KDim: benchDim, VDim: benchDim, BlockSize: block,
		Format: backend.Format{Act: a.dt, K: a.dt, V: a.dt}}
	offsets := []uint32{0}
	for i := range a.batch {
		shape.ContextLens, shape.QueryLens = append(shape.ContextLens, uint32(a.context)), append(shape.QueryLens, uint32(a.queries))
		offsets = append(offsets, uint32((i+1)*a.queries))
	}
	plan, err := r.be.PlanAttend(shape)
	require.NoError(r.b, err)
	layers := r.cache(a.dt, a.batch*a.context, block)
	width := tokens * a.qHeads * benchDim
	p := backend.AttendParams[*Buffer]{
		Q: backend.Dense(r.random(a.dt, width)), QHeads: a.qHeads, Scale: float32(1 / math.Sqrt(benchDim)),
		Batch: backend.Ragged[*Buffer]{Seqs: a.batch, Tokens: tokens, Table: backend.Some(upload(r, backend.U32, shuffled(a.batch*stride))),
			TableStride: stride, ContextLens: upload(r, backend.U32, shape.ContextLens), QueryOffsets: backend.Some(upload(r, backend.U32, offsets))},
		Out:  backend.Outputs[*Buffer]{Rows: backend.Dense(r.alloc(a.dt, width))},
		Plan: plan, Work: backend.Some(upload(r, backend.U32, plan.Work)), Workspace: backend.Some(r.alloc(backend.F32, plan.Workspace)),
	}
	return func(turn int) error {
		p.Cache = layers[turn%len(layers)]
		return r.be.Attend(r.s, p)
	}
}

// read is the keys and values of the contexts, once.
func (a benchAttention) read() work {
	return read(2 * a.batch * a.context * benchWidth * a.dt.Bits() / 8)
}

// multiplied is the products of queries with the keys and values that they see.
func (a benchAttention) multiplied() work {
	seen := a.queries*a.context - a.queries*(a.queries-1)/2
	ceiling := measured.f16
	if a.dt == backend.BF16 {
		ceiling = measured.bf16
	}
	return work{4 * float64(a.batch) * float64(seen) * float64(a.qHeads) * benchDim, "TFLOP/s", 1e12, ceiling}
}

func (a benchAttention) String() string {
	layout := "contiguous"
	if a.block > 0 {
		layout = fmt.Sprintf("block=%d", a.block)
	}
	return fmt.Sprintf("%v/batch=%d/context=%d/queries=%d/heads=%d-%d/%s", a.dt, a.batch, a.context, a.queries, a.qHeads, benchKVHeads, layout)
}

// attend measures one shape.
func attend(b *testing.B, a benchAttention, w func(benchAttention) work) {
	r := newBench(b)
	defer r.close()
	if r.emulated {
		a.batch, a.context, a.queries = min(a.batch, 2), 64, min(a.queries, 32)
	}
	b.Run(a.String(), func(b *testing.B) { r.run(b, w(a), a.set(r)) })
}

// One new token a sequence: the context is read once.
func BenchmarkDecode(b *testing.B) {
	for _, dt := range []backend.DType{backend.F16, backend.BF16} {
		for _, batch := range []int{1, 8, 64} {
			for _, block := range []int{0, benchBlock} {
				attend(b, benchAttention{dt, batch, 8192, 1, benchQHeads, block}, benchAttention.read)
			}
		}
	}
	pairs := 2 * benchKVHeads // query heads, in groups too small for matrix products
	attend(b, benchAttention{backend.F16, 8, 8192, 1, pairs, benchBlock}, benchAttention.read)
	attend(b, benchAttention{backend.F32, 8, 8192, 1, benchQHeads, benchBlock}, benchAttention.read)
}

// A few tokens a sequence, as a draft model guesses them.
func BenchmarkVerify(b *testing.B) {
	for _, batch := range []int{1, 8} {
		attend(b, benchAttention{backend.F16, batch, 8192, 4, benchQHeads, benchBlock}, benchAttention.read)
	}
}

// A prompt, and the last chunk of one.
func BenchmarkPrefill(b *testing.B) {
	for _, dt := range []backend.DType{backend.F16, backend.BF16} {
		for _, block := range []int{0, benchBlock} {
			for _, queries := range []int{8192, 512} {
				attend(b, benchAttention{dt, 1, 8192, queries, benchQHeads, block}, benchAttention.multiplied)
			}
		}
	}
}
