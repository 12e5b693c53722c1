package account

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// Enter counts a block that the tree gets, which has an owner.
func (b *Book) Enter(g *Group) { b.add(g, 1, 0) }

// Leave counts a block that the tree loses, which is not cached.
func (b *Book) Leave(g *Group) { b.add(g, -1, 0) }

// Cache makes a block whose last owner has gone wait in its group.
func (b *Book) Cache(g *Group, id uint32, priority uint8) {
	g.queue.Insert(id, priority)
	b.add(g, 0, 1)
}

// Take takes a cached block out of its group's queue: it has an owner again, or goes.
func (b *Book) Take(g *Group, id uint32) {
	g.queue.Remove(id)
	b.add(g, 0, -1)
}

// add counts blocks that came, or went, and puts the group in its place.
func (b *Book) add(g *Group, blocks, cached int) {
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

// Evictable is the number of blocks that can be evicted for a salt of group own.
func (b *Book) Evictable(own *Group) int { return b.spare - own.spare + own.cached }

// Victim is the group that gives the next block for a salt of group own: its own
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

// Check returns the first contradiction between the book and the blocks that the tree has of each group, all and cached ones. cached reports whether a block has no owner.
func (b *Book) Check(tree map[*Group][2]int, cached func(id uint32) bool) error {
	spare, floors := 0, 0
	for g, have := range tree {
		if have != [2]int{g.blocks, g.cached} {
			return fmt.Errorf("a group has %d blocks, all and cached ones; counted %d and %d", have, g.blocks, g.cached)
		}
		if err := g.queue.Check(g.cached, cached); err != nil {
			return err
		}
		if b.able.Has(g) != (g.spare > 0) || b.floored.Has(g) != (g.spare == 0 && g.cached > 0) {
			return fmt.Errorf("a group with %d blocks to spare has place %d", g.spare, g.place)
		}
		spare, floors = spare+g.spare, floors+g.floor
	}
	if spare != b.spare || floors != b.floors {
		return fmt.Errorf("groups have %d blocks to spare and floors of %d, counted %d and %d", spare, floors, b.spare, b.floors)
	}
	return nil
}
