package gpubench

import (
	"fmt"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// The shape of a layer in all benchmarks: a Llama of 8 billion parameters.
const (
	kvHeads   = 8
	qHeads    = 32
	dim       = 128
	blockSize = 16
	width     = kvHeads * dim // elements of a token's keys, and of its values
)

// planeBytes is the keys, or the values, of n tokens in 16 bits.
func planeBytes(n int) int { return 2 * n * width }

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
	ids := shuffled((n + blockSize - 1) / blockSize)
	slots := make([]int64, n)
	for i := range slots {
		slots[i] = int64(ids[i/blockSize])*blockSize + int64(i%blockSize)
	}
	return slots
}

// moves measures what only moves memory.
func (r *rig[B]) moves() {
	for _, stored := range []backend.DType{backend.F16, backend.Int8, backend.Int4} {
		r.append(stored, r.size(64, 16))
		r.append(stored, r.size(4096, 64))
	}
	r.gather(r.size(8192, 64))
	r.copyBlocks(r.size(512, 4))
	r.moveSlots(r.size(512, 4))
	for _, stored := range []backend.DType{backend.Int8, backend.Int4, backend.Int4Channel} {
		r.convert(stored, r.size(512, 4))
	}
	r.rotate(r.size(8192, 64))
	r.fill(r.size(1<<27, 1<<10))
	r.merge(8, r.size(512, 4))
}

// append writes new keys and values: read once and written once.
func (r *rig[B]) append(stored backend.DType, tokens int) {
	r.measure(fmt.Sprintf("append/%v/tokens=%d", stored, tokens), func(r *rig[B]) (work, operation) {
		layers := r.layers(stored, tokens, blockSize)
		fresh, slots := r.filled(backend.F16, 2*tokens*width), upload(r, backend.I64, slotsOf(tokens))
		return r.moved(2*planeBytes(tokens) + layerSize(stored, tokens, blockSize)), func(turn int) error {
			return r.Backend.Append(r.Stream, backend.AppendParams[B]{Cache: layers[turn%len(layers)], Tokens: tokens,
				K: backend.Dense(fresh), V: backend.Rows[B]{Buf: fresh, Offset: tokens * width}, Slots: slots})
		}
	})
}

// gather brings one sequence from its blocks into one piece.
func (r *rig[B]) gather(tokens int) {
	r.measure(fmt.Sprintf("gather/tokens=%d", tokens), func(r *rig[B]) (work, operation) {
		layers := r.layers(backend.F16, tokens, blockSize)
		k, v := r.alloc(backend.F16, tokens*width), r.alloc(backend.F16, tokens*width)
		table := upload(r, backend.U32, shuffled(tokens/blockSize))
		return r.moved(2 * 2 * planeBytes(tokens)), func(turn int) error {
			return r.Backend.Gather(r.Stream, backend.GatherParams[B]{Cache: layers[turn%len(layers)], Table: backend.Some(table),
				Len: tokens, K: backend.Some(k), V: backend.Some(v)})
		}
	})
}

// copyBlocks copies blocks from one half of a layer to the other.
func (r *rig[B]) copyBlocks(blocks int) {
	r.measure(fmt.Sprintf("copy-blocks/blocks=%d", blocks), func(r *rig[B]) (work, operation) {
		layers := r.layers(backend.F16, 2*blocks*blockSize, blockSize)
		var pairs []uint32
		for i, id := range shuffled(blocks) {
			pairs = append(pairs, uint32(i), uint32(blocks)+id)
		}
		list := upload(r, backend.U32, pairs)
		return r.moved(2 * 2 * planeBytes(blocks*blockSize)), func(turn int) error {
			return r.Backend.CopyBlocks(r.Stream, backend.CopyBlocksParams[B]{Cache: layers[turn%len(layers)], Pairs: list, N: blocks})
		}
	})
}

// moveSlots moves the slots of blocks from one half of a layer to the other.
func (r *rig[B]) moveSlots(blocks int) {
	n := blocks * blockSize
	r.measure(fmt.Sprintf("move-slots/slots=%d", n), func(r *rig[B]) (work, operation) {
		layers := r.layers(backend.F16, 2*n, blockSize)
		var pairs []int64
		for i, slot := range slotsOf(n) {
			pairs = append(pairs, int64(i), int64(n)+slot)
		}
		list := upload(r, backend.I64, pairs)
		return r.moved(2 * 2 * planeBytes(n)), func(turn int) error {
			return r.Backend.MoveSlots(r.Stream, backend.MoveSlotsParams[B]{Cache: layers[turn%len(layers)], Pairs: list, N: n})
		}
	})
}

// convert packs blocks of f16.
func (r *rig[B]) convert(keys backend.DType, blocks int) {
	n := blocks * blockSize
	r.measure(fmt.Sprintf("convert-blocks/%v/blocks=%d", keys, blocks), func(r *rig[B]) (work, operation) {
		from, to := r.layers(backend.F16, n, blockSize), r.layers(keys, n, blockSize)
		var pairs []uint32
		for i, id := range shuffled(blocks) {
			pairs = append(pairs, uint32(i), id)
		}
		list := upload(r, backend.U32, pairs)
		return r.moved(2*planeBytes(n) + layerSize(keys, n, blockSize)), func(turn int) error {
			return r.Backend.ConvertBlocks(r.Stream, backend.ConvertBlocksParams[B]{From: from[turn%len(from)], To: to[turn%len(to)], Pairs: list, N: blocks})
		}
	})
}

// rotate turns keys in place, as when a sequence is shifted.
func (r *rig[B]) rotate(tokens int) {
	r.measure(fmt.Sprintf("rotate/tokens=%d", tokens), func(r *rig[B]) (work, operation) {
		const positions = 512
		table, err := backend.RoPE{}.Table(dim, positions)
		require.NoError(r.b, err)
		layers := r.layers(backend.F16, tokens, blockSize)
		by := make([]int32, tokens)
		for i := range by {
			by[i] = -100
		}
		slots, deltas := upload(r, backend.I64, slotsOf(tokens)), upload(r, backend.I32, by)
		rope := backend.Rope[B]{Table: backend.Some(upload(r, backend.F32, table)), Positions: positions, Dims: dim, Magnitude: 1}
		return r.moved(2 * planeBytes(tokens)), func(turn int) error {
			return r.Backend.Rotate(r.Stream, backend.RotateParams[B]{Cache: layers[turn%len(layers)], Slots: slots, Deltas: deltas, N: tokens, Rope: rope})
		}
	})
}

// fill sets n numbers. Nothing is read, so the rate may be above that of a copy.
func (r *rig[B]) fill(n int) {
	r.measure(fmt.Sprintf("fill/bytes=%d", 2*n), func(r *rig[B]) (work, operation) {
		buf := r.alloc(backend.F16, n)
		return r.moved(2 * n), func(int) error { return r.Backend.Fill(r.Stream, buf, 0, n, 1) }
	})
}

// merge combines partial results over parts of the context.
func (r *rig[B]) merge(parts, tokens int) {
	r.measure(fmt.Sprintf("merge/parts=%d/tokens=%d", parts, tokens), func(r *rig[B]) (work, operation) {
		rows := tokens * qHeads
		in, lse, out := r.filled(backend.F32, parts*rows*dim), r.filled(backend.F32, parts*rows), r.alloc(backend.F16, rows*dim)
		return r.moved(parts*rows*(dim+1)*4 + rows*dim*2), func(int) error {
			return r.Backend.Merge(r.Stream, backend.MergeParams[B]{Parts: parts, Tokens: tokens, Heads: qHeads, Dim: dim,
				In: in, LSE: lse, Out: backend.Dense(out)})
		}
	})
}
