package cpubench

import (
	"fmt"
	"math/rand/v2"

	"github.com/ferrumkv/ferrumkv/backend"
)

// The shape of a layer in all trials: a Llama of 8 billion parameters.
const (
	kvHeads   = 8
	qHeads    = 32
	dim       = 128
	blockSize = 16
	width     = kvHeads * dim // elements of a token's keys, and of its values
)

// layer is a cache of one layer: its storage type, its slots, and those of a block.
type layer struct {
	dt           backend.DType
	slots, block int
}

func (l layer) blocks() int { return l.slots / l.block }

// elements and scales are the bytes of the keys, or the values.
func (l layer) elements() int {
	n, _ := l.dt.Size(l.slots * width)
	return int(n)
}

func (l layer) scales() int {
	dt, n, _ := l.dt.Scales(l.blocks(), kvHeads, l.block, dim)
	return n * dt.Bits() / 8
}

// bytes is what attention reads.
func (l layer) bytes() int { return 2 * (l.elements() + l.scales()) }

// place is the bytes of an arena that a layer takes.
func (l layer) place() int { return 2 * (pages(l.elements()) + pages(l.scales())) }

// layout is how blocks lie, in names.
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
