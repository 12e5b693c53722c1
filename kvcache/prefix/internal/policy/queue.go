// Package policy decides which cached block of a prefix tree is evicted first. It knows blocks by their numbers, and the tree
// by what it asks of Paths.
//
// A Queue is the cached blocks that compete with each other, in the order of one policy: Adaptive, LRU, LFU, Segmented or
// Priority make one. A new policy is a type with the methods of Queue, most of them those of lru, in a file of its own.
package policy

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// None is the number of no block.
const None = intrusive.None

// Paths says where the blocks of a tree are on their paths.
type Paths interface {
	Place(id uint32) Place
	IsEnd(id uint32) bool // no resident block follows
}

// Place is where a block is on its path.
type Place struct {
	Hash   uint64 // of the path to its end
	Depth  uint32 // blocks before it
	Parent uint32 // the block before it; None: it is the first
}

// Queue is the cached blocks that compete with each other.
type Queue interface {
	Store(id uint32, at Place)        // a block is new to the tree, and has an owner
	Touch(id uint32, cached bool)     // it is taken again; cached: it had no owner
	Insert(id uint32, priority uint8) // its last owner has released it
	Remove(id uint32)                 // it has an owner again, or leaves the tree
	Victim() uint32                   // the block that is evicted next, by the caller; None: there is none
	Turn() Turn                       // of a queue that has blocks

	// Check returns the first contradiction. blocks is how many the queue has, and cached reports whether a block has no owner.
	Check(blocks int, cached func(id uint32) bool) error
}

// Turn says when a queue gives a block: by the rank of its front, then by its age.
type Turn struct {
	rank  uint32
	stamp uint64
}

// Before reports whether a is earlier than b.
func (a Turn) Before(b Turn) bool {
	return a.rank < b.rank || a.rank == b.rank && a.stamp < b.stamp
}

// entry is what policies know of a block.
type entry struct {
	stamp    uint64 // when it was last released: later is larger
	hits     uint32 // times it was taken, of the policies that count
	rank     uint32 // of the level it is in, or will be
	cached   bool   // it is in a queue
	priority uint8

	// Of the adaptive policy.
	history uint8 // of its path when it was stored
	cell    uint8
	since   uint64 // its clock at the last release
}

// EntryBytes is the memory taken for each block.
const EntryBytes = int(unsafe.Sizeof(entry{}) + 2*unsafe.Sizeof(intrusive.Link{}))

// Blocks is what policies know of all blocks of a tree, whichever queue they are in.
type Blocks struct {
	queue    func(*Blocks, int) Queue
	paths    Paths
	entries  []entry          // by block number
	inLevel  []intrusive.Link // in the levels of queues
	inCell   []intrusive.Link // in the cells of the adaptive policy
	releases uint64           // of blocks by their last owners
}

// NewBlocks is the blocks of a tree, none as yet, which are evicted in the order of a policy.
func NewBlocks(p Paths, policy func(*Blocks, int) Queue) *Blocks {
	return &Blocks{paths: p, queue: policy}
}

// NewQueue is a queue of the policy for a group that can have room blocks.
func (b *Blocks) NewQueue(room int) Queue { return b.queue(b, room) }

// Grow makes room for n more blocks.
func (b *Blocks) Grow(n int) {
	b.entries = append(b.entries, make([]entry, n)...)
	b.inLevel = append(b.inLevel, make([]intrusive.Link, n)...)
	b.inCell = append(b.inCell, make([]intrusive.Link, n)...)
}

// Move brings blocks of a queue to another one, in the order of their release. With renew they count there as released now.
func (b *Blocks) Move(from, to Queue, ids []uint32, renew bool) {
	slices.SortFunc(ids, func(x, y uint32) int { return cmp.Compare(b.entries[x].stamp, b.entries[y].stamp) })
	for _, id := range ids {
		e := &b.entries[id]
		stamp := e.stamp
		from.Remove(id)
		to.Insert(id, e.priority)
		if !renew {
			e.stamp = stamp
		}
	}
}
