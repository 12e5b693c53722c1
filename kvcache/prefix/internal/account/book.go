// Package account counts the blocks of a prefix tree for each salt and says whose blocks make room: quotas, floors, shares of the
// cache, and statistics. It knows blocks by their numbers, and salts by their sums; the zero sum is that of no salt.
package account

import (
	"unsafe"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// Book is the accounts of a tree.
type Book struct {
	total    func() int // blocks of the allocator
	policies *policy.Blocks
	tenants  map[[32]byte]*Tenant
	counts   Counts

	// Groups that have cached blocks are in one of two heaps, the one whose turn it is at the top.
	common  *Group                 // of all tenants that have no limits
	able    intrusive.Heap[*Group] // those of which a block can be evicted for any salt
	floored intrusive.Heap[*Group] // those that their floors protect
	limited int                    // tenants that have a group of their own
	spare   int                    // blocks that can be evicted for any salt
}

// Tenant is everything under one salt. It exists while it has roots or limits.
type Tenant struct {
	salt    [32]byte
	roots   int
	limited bool
	group   *Group
	counts  Counts
}

// TenantBytes is the memory of a tenant.
const TenantBytes = int(unsafe.Sizeof(Tenant{}))

// NewBook is the book of a tree over total blocks.
func NewBook(total func() int, p *policy.Blocks) *Book {
	b := &Book{total: total, policies: p, tenants: map[[32]byte]*Tenant{}, able: newHeap(), floored: newHeap()}
	b.common = b.newGroup(0, 0)
	return b
}

// Open is the tenant of a salt for one more root, which closes it.
func (b *Book) Open(salt [32]byte) *Tenant {
	tn := b.tenants[salt]
	if tn == nil {
		tn = &Tenant{salt: salt, group: b.common}
		b.tenants[salt] = tn
	}
	tn.roots++
	return tn
}

// Close ends one Open.
func (b *Book) Close(tn *Tenant) {
	if tn.roots--; tn.roots == 0 && !tn.limited {
		delete(b.tenants, tn.salt)
	}
}

// Tenants is the number of salts that have roots or limits.
func (b *Book) Tenants() int { return len(b.tenants) }

// Enter counts a block that the tree gets, which has an owner.
func (b *Book) Enter(tn *Tenant) { b.add(tn, 1, 0) }

// Leave counts a block that the tree loses, which is not cached.
func (b *Book) Leave(tn *Tenant) { b.add(tn, -1, 0) }

// Cache makes a block whose last owner has gone wait in its group.
func (b *Book) Cache(tn *Tenant, id uint32, priority uint8) {
	tn.group.queue.Insert(id, priority)
	b.add(tn, 0, 1)
}

// Take takes a cached block out of its group's queue: it has an owner again, or goes.
func (b *Book) Take(tn *Tenant, id uint32) {
	tn.group.queue.Remove(id)
	b.add(tn, 0, -1)
}

func (b *Book) add(tn *Tenant, blocks, cached int) {
	b.Add(tn, Blocks, blocks)
	b.Add(tn, Cached, cached)
	b.change(tn.group, blocks, cached)
}
