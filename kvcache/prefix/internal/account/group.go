package account

import (
	"math"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// Group is a set of blocks that compete with each other: those of all tenants together that
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

func (b *Book) newGroup(quota, floor int) *Group {
	g := &Group{quota: quota, floor: floor}
	g.queue = b.policies.NewQueue(min(b.total(), g.Room()))
	return g
}

// Group is where the blocks of the tenant compete.
func (tn *Tenant) Group() *Group { return tn.group }

// Group is where the blocks of a salt compete, or would.
func (b *Book) Group(salt [32]byte) *Group {
	if b.limited > 0 {
		if tn := b.tenants[salt]; tn != nil {
			return tn.group
		}
	}
	return b.common
}

// Queue is the queue of the group's cached blocks.
func (g *Group) Queue() policy.Queue { return g.queue }

// Room is the number of blocks that the group can get within its quota, negative when it has more.
func (g *Group) Room() int {
	if g.quota == 0 {
		return math.MaxInt
	}
	return g.quota - g.blocks
}

// change counts blocks that came or went, and puts a group in its place.
func (b *Book) change(g *Group, blocks, cached int) {
	g.blocks += blocks
	g.cached += cached
	spare := max(min(g.cached, g.blocks-g.floor), 0)
	b.spare += spare - g.spare
	g.spare = spare
	var home *intrusive.Heap[*Group]
	switch {
	case spare > 0:
		home = &b.able
	case g.cached > 0:
		home = &b.floored
	}
	moves := home != g.home
	if moves && g.home != nil {
		g.home.Remove(g)
	}
	if g.home = home; home == nil {
		return
	}
	if turn := g.queue.Turn(); moves || turn != g.turn {
		g.turn = turn
		home.Put(g)
	}
}

func newHeap() intrusive.Heap[*Group] {
	return intrusive.NewHeap(
		func(a, b *Group) bool { return a.turn.Before(b.turn) },
		func(g *Group) *int32 { return &g.place },
	)
}

// Evictable is the number of blocks that can be evicted for a salt.
func (b *Book) Evictable(salt [32]byte) int {
	own := b.Group(salt)
	return b.spare - own.spare + own.cached
}

// Victim is the group that gives the next block for a tenant of group own: its own
// blocks can go whatever its floor is.
func (b *Book) Victim(own *Group) *Group {
	if best := b.able.Top(); best != nil && (own.cached == 0 || !own.turn.Before(best.turn)) {
		return best
	}
	return own
}

// AnyVictim is the group that gives the next block whatever the floors; nil: none has any.
func (b *Book) AnyVictim() *Group {
	best, floored := b.able.Top(), b.floored.Top()
	if best == nil || floored != nil && floored.turn.Before(best.turn) {
		return floored
	}
	return best
}
