// Package policy decides which cached block of a prefix tree is evicted first. It knows blocks by their numbers, and the tree
// by what it asks of Paths.
//
// A Queue is the cached blocks that compete with each other, in the order of one policy: Adaptive, LRU, LFU, Segmented or
// Priority make one. A new policy is a type with the methods of order, in a file of its own.
package policy

import (
	"unsafe"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// None is the number of no block.
const None = intrusive.None

// Paths says where the blocks of a tree are on their paths.
type Paths interface {
	// Place is the place of a block in the tree.
	Place(id uint32) Place
	// IsEnd reports whether no resident block follows a block on its path.
	IsEnd(id uint32) bool
}

// Place is where a block is on its path.
type Place struct {
	Hash   uint64 // of the path to its end
	Depth  uint32 // blocks before it
	Parent uint32 // the block before it; None: it is the first
}

// entry is what policies know of a block.
type entry struct {
	level    intrusive.Link // in the level of its queue
	stamp    uint64         // when it was last released: later is larger
	hits     uint32         // times it was taken
	rank     uint32         // of the level it is in, or will be
	cached   bool           // it is in a queue
	priority uint8

	// Of the adaptive policy.
	history uint8 // of its path when it was stored
	cell    uint8
	inCell  intrusive.Link
	since   uint64 // its clock at the last release
}

// EntryBytes is the memory taken for each block.
const EntryBytes = int(unsafe.Sizeof(entry{}))

// Blocks is what policies know of all blocks of a tree, whichever queue they are in.
type Blocks struct {
	paths   Paths
	entries []entry // by block number
	clock   uint64  // counts releases
	links   intrusive.Links
	cells   intrusive.Links
}

// NewBlocks is the blocks of a tree, none as yet.
func NewBlocks(p Paths) *Blocks {
	b := &Blocks{paths: p}
	b.links = func(id uint32) *intrusive.Link { return &b.entries[id].level }
	b.cells = func(id uint32) *intrusive.Link { return &b.entries[id].inCell }
	return b
}

// Grow makes room for blocks of numbers below n.
func (b *Blocks) Grow(n int) {
	if more := n - len(b.entries); more > 0 {
		b.entries = append(b.entries, make([]entry, more)...)
	}
}
