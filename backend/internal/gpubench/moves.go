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

// moves is what only moves memory.
func (r *rig[B]) moves() (all []trial[B]) {
	for _, stored := range []backend.DType{backend.F16, backend.Int8, backend.Int4, backend.FP8E4M3} {
		all = append(all, r.append(stored, r.size(64, 16)), r.append(stored, r.size(4096, 64)))
	}
	all = append(all, r.gather(r.size(8192, 64)), r.copyBlocks(r.size(512, 4)), r.moveSlots(r.size(512, 4)))
	for _, stored := range []backend.DType{backend.Int8, backend.Int4, backend.Int4Channel} {
		all = append(all, r.convert(stored, r.size(512, 4)))
	}
	return append(all, r.rotate(r.size(8192, 64)), r.fill(r.size(1<<27, 1<<10)), r.merge(8, r.size(512, 4)))
}

// append writes new keys and values: read once and written once.
func (r *rig[B]) append(stored backend.DType, tokens int) trial[B] {
	return trial[B]{fmt.Sprintf("append/f16-%v/tokens=%d", stored, tokens), func(r *rig[B]) (work, operation) {
		n, rows := r.turns(layerSize(stored, tokens, blockSize)), 2*tokens*width
		layers := r.layers(n, stored, tokens, blockSize)
		fresh, slots := r.filled(backend.F16, n*rows), upload(r, backend.I64, slotsOf(tokens))
		return r.moved(2*planeBytes(tokens) + layerSize(stored, tokens, blockSize)), func(turn int) error {
			k := backend.Rows[B]{Buf: fresh, Offset: turn % n * rows}
			v := k
			v.Offset += rows / 2
			return r.Backend.Append(r.Stream, backend.AppendParams[B]{Cache: layers[turn%n], Tokens: tokens, K: k, V: v, Slots: slots})
		}
	}}
}

// gather brings one sequence from its blocks into one piece.
func (r *rig[B]) gather(tokens int) trial[B] {
	return trial[B]{fmt.Sprintf("gather/f16/tokens=%d", tokens), func(r *rig[B]) (work, operation) {
		n := r.turns(2 * planeBytes(tokens))
		layers, pieces := r.layers(n, backend.F16, tokens, blockSize), make([][2]B, n)
		for i := range pieces {
			pieces[i] = [2]B{r.alloc(backend.F16, tokens*width), r.alloc(backend.F16, tokens*width)}
		}
		table := upload(r, backend.U32, shuffled(tokens/blockSize))
		return r.moved(2 * 2 * planeBytes(tokens)), func(turn int) error {
			to := pieces[turn%n]
			return r.Backend.Gather(r.Stream, backend.GatherParams[B]{Cache: layers[turn%n], Table: backend.Some(table), Len: tokens,
				K: backend.Some(to[0]), V: backend.Some(to[1])})
		}
	}}
}

// copyBlocks copies blocks from one half of a layer to the other.
func (r *rig[B]) copyBlocks(blocks int) trial[B] {
	return trial[B]{fmt.Sprintf("copy-blocks/f16/blocks=%d", blocks), func(r *rig[B]) (work, operation) {
		moved := 2 * 2 * planeBytes(blocks*blockSize)
		layers := r.layers(r.turns(moved), backend.F16, 2*blocks*blockSize, blockSize)
		var pairs []uint32
		for i, id := range shuffled(blocks) {
			pairs = append(pairs, uint32(i), uint32(blocks)+id)
		}
		list := upload(r, backend.U32, pairs)
		return r.moved(moved), func(turn int) error {
			return r.Backend.CopyBlocks(r.Stream, backend.CopyBlocksParams[B]{Cache: layers[turn%len(layers)], Pairs: list, N: blocks})
		}
	}}
}

// moveSlots moves the slots of blocks from one half of a layer to the other.
func (r *rig[B]) moveSlots(blocks int) trial[B] {
	n := blocks * blockSize
	return trial[B]{fmt.Sprintf("move-slots/f16/slots=%d", n), func(r *rig[B]) (work, operation) {
		moved := 2 * 2 * planeBytes(n)
		layers := r.layers(r.turns(moved), backend.F16, 2*n, blockSize)
		var pairs []int64
		for i, slot := range slotsOf(n) {
			pairs = append(pairs, int64(i), int64(n)+slot)
		}
		list := upload(r, backend.I64, pairs)
		return r.moved(moved), func(turn int) error {
			return r.Backend.MoveSlots(r.Stream, backend.MoveSlotsParams[B]{Cache: layers[turn%len(layers)], Pairs: list, N: n})
		}
	}}
}

// convert packs blocks of f16.
func (r *rig[B]) convert(keys backend.DType, blocks int) trial[B] {
	slots := blocks * blockSize
	return trial[B]{fmt.Sprintf("convert-blocks/f16-%v/blocks=%d", keys, blocks), func(r *rig[B]) (work, operation) {
		n := r.turns(layerSize(keys, slots, blockSize))
		from, to := r.layers(n, backend.F16, slots, blockSize), r.layers(n, keys, slots, blockSize)
		var pairs []uint32
		for i, id := range shuffled(blocks) {
			pairs = append(pairs, uint32(i), id)
		}
		list := upload(r, backend.U32, pairs)
		return r.moved(2*planeBytes(slots) + layerSize(keys, slots, blockSize)), func(turn int) error {
			return r.Backend.ConvertBlocks(r.Stream, backend.ConvertBlocksParams[B]{From: from[turn%n], To: to[turn%n], Pairs: list, N: blocks})
		}
	}}
}

// rotate turns keys in place, as when a sequence is shifted.
func (r *rig[B]) rotate(tokens int) trial[B] {
	return trial[B]{fmt.Sprintf("rotate/f16/tokens=%d", tokens), func(r *rig[B]) (work, operation) {
		const positions = 512
		table, err := backend.RoPE{}.Table(dim, positions)
		require.NoError(r.b, err)
		layers := r.layers(r.turns(planeBytes(tokens)), backend.F16, tokens, blockSize)
		by := make([]int32, tokens)
		for i := range by {
			by[i] = -100
		}
		slots, deltas := upload(r, backend.I64, slotsOf(tokens)), upload(r, backend.I32, by)
		rope := backend.Rope[B]{Table: backend.Some(upload(r, backend.F32, table)), Positions: positions, Dims: dim, Magnitude: 1}
		return r.moved(2 * planeBytes(tokens)), func(turn int) error {
			return r.Backend.Rotate(r.Stream, backend.RotateParams[B]{Cache: layers[turn%len(layers)], Slots: slots, Deltas: deltas, N: tokens, Rope: rope})
		}
	}}
}

// fill sets n numbers. Nothing is read, so the rate may be above that of a copy.
func (r *rig[B]) fill(n int) trial[B] {
	return trial[B]{fmt.Sprintf("fill/f16/bytes=%d", 2*n), func(r *rig[B]) (work, operation) {
		buf := r.alloc(backend.F16, n)
		return r.moved(2 * n), func(int) error { return r.Backend.Fill(r.Stream, buf, 0, n, 1) }
	}}
}

// merge combines partial results that were computed elsewhere, each read from memory.
func (r *rig[B]) merge(parts, tokens int) trial[B] {
	return trial[B]{fmt.Sprintf("merge/f32-f16/parts=%d/tokens=%d", parts, tokens), func(r *rig[B]) (work, operation) {
		rows := tokens * qHeads
		in := make([]B, r.turns(parts*rows*dim*4))
		for i := range in {
			in[i] = r.filled(backend.F32, parts*rows*dim)
		}
		lse, out := r.filled(backend.F32, parts*rows), r.alloc(backend.F16, len(in)*rows*dim)
		return r.moved(parts*rows*(dim+1)*4 + rows*dim*2), func(turn int) error {
			return r.Backend.Merge(r.Stream, backend.MergeParams[B]{Parts: parts, Tokens: tokens, Heads: qHeads, Dim: dim,
				In: in[turn%len(in)], LSE: lse, Out: backend.Rows[B]{Buf: out, Offset: turn % len(in) * rows * dim}})
		}
	}}
}
