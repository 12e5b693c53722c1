package policy

import (
	"slices"
	"sort"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// order is a policy at work in a queue. Blocks at the fronts of levels of lower ranks are evicted first. The blocks before a
// block on its path never have a lower rank.
type order interface {
	store(id uint32, at Place)    // a new block, which has an owner
	touch(id uint32, cached bool) // taken again; cached: it had no owner
	insert(q *Queue, id uint32)   // pushes it
	remove(q *Queue, id uint32)   // pulls it
	victim(q *Queue) uint32       // of the next eviction; None: there is none
}

// Queue is the cached blocks that compete with each other, in the order of a policy.
type Queue struct {
	blocks *Blocks
	levels []level // by rising rank, none empty
	order  order
}

// level is the blocks of one rank: released first at the front.
type level struct {
	rank uint32
	intrusive.List
}

// Store notes a block that is new to the tree. It has an owner.
func (q *Queue) Store(id uint32, at Place) {
	q.blocks.entries[id] = entry{}
	q.order.store(id, at)
}

// Touch notes that a block was taken again. cached says that it had no owner.
func (q *Queue) Touch(id uint32, cached bool) {
	q.blocks.entries[id].hits++
	q.order.touch(id, cached)
}

// Insert adds a block whose last owner has released it.
func (q *Queue) Insert(id uint32, priority uint8) {
	b := q.blocks
	b.clock++
	e := &b.entries[id]
	e.stamp, e.cached, e.priority = b.clock, true, priority
	q.order.insert(q, id)
}

// Remove takes a block out: it has an owner again, or leaves the tree.
func (q *Queue) Remove(id uint32) {
	q.blocks.entries[id].cached = false
	q.order.remove(q, id)
}

// Victim is the block that is evicted next, which the caller must do; None: there is none.
func (q *Queue) Victim() uint32 { return q.order.victim(q) }

// Move brings blocks of a queue to another one, in the order of their release. With renew they count there as released now.
func Move(from, to *Queue, blocks []uint32, renew bool) {
	b := from.blocks
	slices.SortFunc(blocks, func(x, y uint32) int { return b.entries[x].compare(&b.entries[y]) })
	for _, id := range blocks {
		from.order.remove(from, id)
	}
	for _, id := range blocks {
		if renew {
			b.clock++
			b.entries[id].stamp = b.clock
		}
		to.order.insert(to, id)
	}
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

// Turn is that of a queue that has blocks.
func (q *Queue) Turn() Turn {
	l := &q.levels[0]
	return Turn{l.rank, q.blocks.entries[l.Front()].stamp}
}

// find is the place in q.levels of a rank, or where it would be.
func (q *Queue) find(rank uint32) (int, bool) {
	i := sort.Search(len(q.levels), func(i int) bool { return q.levels[i].rank >= rank })
	return i, i < len(q.levels) && q.levels[i].rank == rank
}

// push puts a block at the back of the level of its entry's rank.
func (q *Queue) push(id uint32) {
	rank := q.blocks.entries[id].rank
	i, there := q.find(rank)
	if !there {
		q.levels = append(q.levels, level{})
		copy(q.levels[i+1:], q.levels[i:])
		q.levels[i] = level{rank, intrusive.Empty}
	}
	q.levels[i].Push(q.blocks.links, id)
}

// pull takes a block out of its level, from wherever it stands.
func (q *Queue) pull(id uint32) {
	i, _ := q.find(q.blocks.entries[id].rank)
	l := &q.levels[i]
	if l.Pull(q.blocks.links, id); l.Len() == 0 {
		q.levels = append(q.levels[:i], q.levels[i+1:]...)
	}
}

// end is the block that has waited longest in a level among those that end a
// path: the first one, since a path is released from its end.
func (q *Queue) end(l *level) uint32 {
	for id := l.Front(); id != None; id = q.blocks.entries[id].level.Next {
		if q.blocks.paths.IsEnd(id) {
			return id
		}
	}
	return None
}
