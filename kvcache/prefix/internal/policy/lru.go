package policy

import (
	"slices"
	"sort"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// lru is LRU, and what the other policies do where they do nothing else. Blocks at the fronts of levels of lower ranks are
// evicted first. The blocks before a block on its path never have a lower rank.
type lru struct {
	*Blocks
	levels []level // by rising rank, none empty
}

// level is the blocks of one rank: released first at the front.
type level struct {
	rank uint32
	intrusive.List
}

// LRU evicts the block that was released first.
func LRU(b *Blocks, _ int) Queue { return &lru{Blocks: b} }

func (q *lru) Store(id uint32, _ Place) { q.entries[id] = entry{} }
func (q *lru) Touch(id uint32, _ bool)  { q.entries[id].hits++ }

func (q *lru) Insert(id uint32, priority uint8) {
	q.releases++
	e := &q.entries[id]
	e.stamp, e.cached, e.priority = q.releases, true, priority
	q.push(id)
}

func (q *lru) Remove(id uint32) {
	q.entries[id].cached = false
	q.pull(id)
}

// Victim is the block that has waited longest in the lowest level among those that end a
// path: the first one, since a path is released from its end.
func (q *lru) Victim() uint32 {
	for i := range q.levels {
		for id := q.levels[i].Front(); id != None; id = q.inLevel[id].Next() {
			if q.paths.IsEnd(id) {
				return id
			}
		}
	}
	return None
}

func (q *lru) Turn() Turn {
	l := &q.levels[0]
	return Turn{l.rank, q.entries[l.Front()].stamp}
}

// find is the place in q.levels of a rank, or where it would be.
func (q *lru) find(rank uint32) (int, bool) {
	i := sort.Search(len(q.levels), func(i int) bool { return q.levels[i].rank >= rank })
	return i, i < len(q.levels) && q.levels[i].rank == rank
}

// push puts a block at the back of the level of its entry's rank.
func (q *lru) push(id uint32) {
	rank := q.entries[id].rank
	i, there := q.find(rank)
	if !there {
		q.levels = slices.Insert(q.levels, i, level{rank, intrusive.Empty})
	}
	q.levels[i].Push(q.inLevel, id)
}

// pull takes a block out of its level, from wherever it stands.
func (q *lru) pull(id uint32) {
	i, _ := q.find(q.entries[id].rank)
	l := &q.levels[i]
	if l.Pull(q.inLevel, id); l.Len() == 0 {
		q.levels = slices.Delete(q.levels, i, i+1)
	}
}

// lfu has a level for each number of uses.
type lfu struct{ lru }

// LFU evicts the block that was taken least often.
func LFU(b *Blocks, _ int) Queue { return &lfu{lru{Blocks: b}} }

func (q *lfu) Insert(id uint32, priority uint8) {
	q.entries[id].rank = q.entries[id].hits
	q.lru.Insert(id, priority)
}

// byPriority has a level for each priority.
type byPriority struct{ lru }

// Priority evicts the block with the lowest priority.
func Priority(b *Blocks, _ int) Queue { return &byPriority{lru{Blocks: b}} }

func (q *byPriority) Insert(id uint32, priority uint8) {
	q.entries[id].rank = uint32(priority)
	q.lru.Insert(id, priority)
}

// segmented has two levels. What leaves the protected one gets a second life at the back of the other.
type segmented struct {
	lru
	protectable int // blocks
}

const protected = 1 // the rank; that of other blocks is 0

// Segmented is LRU in two segments: a fifth of room is for blocks that were taken again.
func Segmented(b *Blocks, room int) Queue { return &segmented{lru{Blocks: b}, room / 5} }

func (q *segmented) Touch(id uint32, _ bool) { q.entries[id].rank = protected }

func (q *segmented) Insert(id uint32, priority uint8) {
	q.lru.Insert(id, priority)
	last := &q.levels[len(q.levels)-1]
	if last.rank == protected && last.Len() > q.protectable {
		oldest := last.Front()
		q.pull(oldest)
		q.entries[oldest].rank = 0
		q.push(oldest)
	}
}
