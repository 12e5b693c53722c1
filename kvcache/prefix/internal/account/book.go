// Package account counts the blocks of a prefix tree for each salt and says whose blocks make room: quotas, floors, shares of the
// cache, and statistics. It knows blocks by their numbers.
package account

import (
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// Book is the accounts of a tree.
type Book struct {
	total   func() int                      // blocks of the allocator
	queue   func(capacity int) policy.Queue // of a new group
	tenants map[Salt]*Tenant
	counts  Counts

	// Groups that have cached blocks are in one of two heaps, the one whose turn it is at the top.
	common  *Group
	able    intrusive.Heap[*Group] // those of which a block can be evicted for any salt
	floored intrusive.Heap[*Group] // those that their floors protect
	limited int                    // tenants that have a group of their own
	spare   int                    // blocks that can be evicted for any salt
}

// NewBook is the book of a tree over total blocks. queue makes the queue of a group that can have capacity blocks.
func NewBook(total func() int, queue func(capacity int) policy.Queue) *Book {
	b := &Book{total: total, queue: queue, tenants: map[Salt]*Tenant{}, able: newHeap(), floored: newHeap()}
	b.common = b.newGroup(Limits{})
	return b
}

// Common is the group of all salts that have no limits.
func (b *Book) Common() *Group { return b.common }

// Enter counts a block that the tree gets, which has an owner.
func (b *Book) Enter(tn *Tenant) {
	b.counts.Blocks++
	tn.counts.Blocks++
	tn.group.blocks++
	b.changed(tn.group)
}

// Leave counts a block that the tree loses.
func (b *Book) Leave(tn *Tenant) {
	b.counts.Blocks--
	tn.counts.Blocks--
	tn.group.blocks--
	b.changed(tn.group)
}

// Cache makes a block whose last owner has gone wait in its group.
func (b *Book) Cache(tn *Tenant, id uint32, priority uint8) {
	g := tn.group
	g.queue.Insert(id, priority)
	g.cached++
	tn.counts.Cached++
	b.counts.Cached++
	b.changed(g)
}

// Take takes a cached block out of its group's queue: it has an owner again, or goes.
func (b *Book) Take(tn *Tenant, id uint32) {
	g := tn.group
	g.queue.Remove(id)
	g.cached--
	tn.counts.Cached--
	b.counts.Cached--
	b.changed(g)
}

// Evictable is the number of blocks that can be evicted for a salt.
func (b *Book) Evictable(salt Salt) int {
	own := b.Group(salt)
	return b.spare - own.spare + own.cached
}
