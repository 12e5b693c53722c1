package bench

import (
	"fmt"
	"math/rand/v2"

	"github.com/ferrumkv/ferrumkv/backend"
)

// heads are those of a layer's queries, and of its keys and values, and their size. With latent values are the first so many
// elements of keys.
type heads struct{ query, kv, dim, latent int }

// llama is a layer of a Llama of 8 billion parameters.
var llama = heads{32, 8, 128, 0}

// mla is a layer of latents as DeepSeek's models have them, with so many query heads.
func mla(query int) heads { return heads{query, 1, 576, 512} }

// width is the elements of a token's keys, and of values that lie apart.
func (h heads) width() int { return h.kv * h.dim }

// valueDim is the elements of a value.
func (h heads) valueDim() int {
	if h.latent > 0 {
		return h.latent
	}
	return h.dim
}

const (
	blockSize  = 16 // slots of a block, where a trial is paged
	contiguous = 0  // as a size of a block: that of a whole context
)

// layer is a cache of one layer: how its keys are stored, its slots, and those of a block.
type layer struct {
	heads
	keys         backend.DType
	slots, block int
}

func (l layer) blocks() int { return l.slots / l.block }

// values is how values are stored, beside the keys or in them.
func (l layer) values() backend.DType {
	if l.latent > 0 {
		return l.keys
	}
	return l.keys.Coding().Values
}

// planes is the storage types of keys and of values that lie apart.
func (l layer) planes() []backend.DType {
	if l.latent > 0 {
		return []backend.DType{l.keys}
	}
	return []backend.DType{l.keys, l.values()}
}

// elements and scales are the bytes of keys, or values, of a type.
func (l layer) elements(dt backend.DType) int {
	n, _ := dt.Size(l.slots * l.width())
	return int(n)
}

func (l layer) scales(dt backend.DType) int {
	words, n, _ := dt.Scales(l.blocks(), l.kv, l.block, l.dim)
	return n * words.Bits() / 8
}

// plane is the bytes of keys, or values, with their scales.
func (l layer) plane(dt backend.DType) int { return l.elements(dt) + l.scales(dt) }

// bytes is what attention reads.
func (l layer) bytes() (n int) {
	for _, dt := range l.planes() {
		n += l.plane(dt)
	}
	return n
}

// place is the bytes of an arena that a layer takes.
func (l layer) place() (n int) {
	for _, dt := range l.planes() {
		n += pages(l.elements(dt)) + pages(l.scales(dt))
	}
	return n
}

// view is the cache without its memory.
func view[B backend.Buffer](l layer) backend.CacheView[B] {
	return backend.CacheView[B]{V: backend.Plane[B]{Dim: l.valueDim()}, Blocks: l.blocks(), KVHeads: l.kv, BlockSize: l.block, Latent: l.latent > 0}
}

// layout is how the blocks of a layer lie, in names.
func (l layer) layout() string {
	if l.block == blockSize {
		return fmt.Sprintf("paged%d", blockSize)
	}
	return "contiguous"
}

// order is the slots of tokens that lie in shuffled blocks.
func (l layer) order() []int64 {
	slots, ids := make([]int64, l.slots), shuffled(l.blocks())
	for i := range slots {
		slots[i] = int64(ids[i/l.block])*int64(l.block) + int64(i%l.block)
	}
	return slots
}

// pairs is n blocks, and the shuffled ones from first on that they go to.
func pairs(n, first int) (out []uint32) {
	for i, id := range shuffled(n) {
		out = append(out, uint32(i), uint32(first)+id)
	}
	return out
}

// shuffled is n block ids in random order, as in a pool that was used for a while.
func shuffled(n int) []uint32 {
	ids := make([]uint32, n)
	for i, id := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		ids[i] = uint32(id)
	}
	return ids
}
