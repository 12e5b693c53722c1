// Package account says whose blocks make room in a prefix tree: quotas and floors, and the groups of salts that have them. It knows blocks by
// their numbers.
package account

import (
	"math"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// Book is the groups of a tree. Those that have cached blocks are in one of two heaps, the one whose turn it is at the top.
type Book struct {
	total    func() int // blocks of the allocator
	policies *policy.Blocks
	common   *Group
	able     intrusive.Heap[*Group] // those of which a block can be evicted for any salt
	floored  intrusive.Heap[*Group] // those that their floors protect
	limited  int                    // groups that have limits
	floors   int                    // of all groups
	spare    int                    // blocks that can be evicted for any salt
}

// Group is a set of blocks that compete with each other: those of all salts together that
// have no limits, or those of one that has.
type Group struct {
	queue        policy.Queue // of those without an owner
	quota, floor int
	blocks       int // in the tree
	cached       int // of them, without an owner

	spare int                     // blocks that can be evicted for any salt
	turn  policy.Turn             // if there are cached ones
	home  *intrusive.Heap[*Group] // it is in, and where
	place int32
}

// NewBook is the book of a tree over total blocks, with the group of all salts that have no limits.
func NewBook(total func() int, p *policy.Blocks) *Book {
	empty := intrusive.NewHeap(func(a, b *Group) bool { return a.turn.Before(b.turn) }, func(g *Group) *int32 { return &g.place })
	b := &Book{total: total, policies: p, able: empty, floored: empty}
	b.common = b.newGroup(0, 0)
	return b
}

func (b *Book) newGroup(quota, floor int) *Group {
	g := &Group{quota: quota, floor: floor}
	g.queue = b.policies.NewQueue(min(b.total(), g.Room()))
	return g
}

// Common is the group of all salts that have no limits.
func (b *Book) Common() *Group { return b.common }

// Limited reports whether there are other groups.
func (b *Book) Limited() bool { return b.limited > 0 }

// Floors is the sum of the floors of all groups but g.
func (b *Book) Floors(g *Group) int { return b.floors - g.floor }

// Limits are those of a group, 0 for none.
func (g *Group) Limits() (quota, floor int) { return g.quota, g.floor }

// Queue is the queue of the group's cached blocks.
func (g *Group) Queue() policy.Queue { return g.queue }

// Room is the number of blocks that the group can get within its quota, negative when it has more.
func (g *Group) Room() int {
	if g.quota == 0 {
		return math.MaxInt
	}
	return g.quota - g.blocks
}

// Limit brings the blocks of a salt that gets limits from its group to the one that it returns, the cached ones in any
// order: Limit sorts them by their release. Among those of others that are there they count as released now.
func (b *Book) Limit(g *Group, quota, floor, blocks int, cached []uint32) *Group {
	b.floors += floor - g.floor
	if g != b.common {
		b.limited--
	}
	to := b.common
	if quota > 0 || floor > 0 {
		to = b.newGroup(quota, floor)
		b.limited++
	}
	b.policies.Move(g.queue, to.queue, cached, to == b.common)
	b.add(g, -blocks, -len(cached))
	b.add(to, blocks, len(cached))
	return to
}
