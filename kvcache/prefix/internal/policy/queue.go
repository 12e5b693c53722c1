package policy

import (
	"cmp"
	"slices"
)

// Queue is the cached blocks that compete with each other.
type Queue interface {
	Store(id uint32, at Place)        // a block is new to the tree, and has an owner
	Touch(id uint32, cached bool)     // it is taken again; cached: it had no owner
	Insert(id uint32, priority uint8) // its last owner has released it
	Remove(id uint32)                 // it has an owner again, or leaves the tree
	Victim() uint32                   // the block that is evicted next, which the caller must do; None: there is none
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
