package account

import (
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// Group is a set of blocks that compete with each other: those of all tenants together that
// have no limits, or those of one that has.
type Group struct {
	queue  policy.Queue // of those without an owner
	limits Limits
	blocks int // in the tree
	cached int // of them, without an owner

	spare int                     // blocks that can be evicted for any salt
	turn  policy.Turn             // if there are cached ones
	home  *intrusive.Heap[*Group] // it is in, and where
	place int32
}

func (b *Book) newGroup(l Limits) *Group {
	capacity := b.total()
	if l.Quota > 0 {
		capacity = min(l.Quota, capacity)
	}
	return &Group{queue: b.queue(capacity), limits: l}
}

// Queue is the queue of the group's cached blocks.
func (g *Group) Queue() *policy.Queue { return &g.queue }

// Full reports whether the group's quota is used up.
func (g *Group) Full() bool { return g.limits.Quota > 0 && g.blocks >= g.limits.Quota }

// Over reports whether the group has more blocks than its quota.
func (g *Group) Over() bool { return g.limits.Quota > 0 && g.blocks > g.limits.Quota }

// changed puts a group in its place after its blocks or limits have changed.
func (b *Book) changed(g *Group) {
	spare := max(min(g.cached, g.blocks-g.limits.Floor), 0)
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
