package policy

import "cmp"

// LRU evicts the block that was released first.
func LRU(b *Blocks, _ int) Queue { return Queue{blocks: b, order: recency{}} }

// LFU evicts the block that was taken least often.
func LFU(b *Blocks, _ int) Queue { return Queue{blocks: b, order: byUse{}} }

// Priority evicts the block with the lowest priority.
func Priority(b *Blocks, _ int) Queue { return Queue{blocks: b, order: byPriority{}} }

// Segmented is LRU in two segments: a fifth of room is for blocks that were taken again.
func Segmented(b *Blocks, room int) Queue {
	return Queue{blocks: b, order: segmented{blocks: b, protectable: room / 5}}
}

// compare orders entries by the time of their release.
func (e *entry) compare(o *entry) int { return cmp.Compare(e.stamp, o.stamp) }

// recency is LRU, and what the other policies do where they do nothing else.
type recency struct{}

func (recency) store(uint32, Place)        {}
func (recency) touch(uint32, bool)         {}
func (recency) insert(q *Queue, id uint32) { q.push(id) }
func (recency) remove(q *Queue, id uint32) { q.pull(id) }

func (recency) victim(q *Queue) uint32 {
	for i := range q.levels {
		if id := q.end(&q.levels[i]); id != None {
			return id
		}
	}
	return None
}

// byUse is LFU.
type byUse struct{ recency }

func (byUse) insert(q *Queue, id uint32) {
	e := &q.blocks.entries[id]
	e.rank = e.hits
	q.push(id)
}

// byPriority is Priority.
type byPriority struct{ recency }

func (byPriority) insert(q *Queue, id uint32) {
	e := &q.blocks.entries[id]
	e.rank = uint32(e.priority)
	q.push(id)
}

// segmented is Segmented. What leaves the protected segment gets a second
// life at the back of the other.
type segmented struct {
	recency
	blocks      *Blocks
	protectable int // blocks
}

const (
	probation = iota
	protected
)

func (p segmented) touch(id uint32, _ bool) { p.blocks.entries[id].rank = protected }

func (p segmented) insert(q *Queue, id uint32) {
	q.push(id)
	last := &q.levels[len(q.levels)-1]
	if last.rank == protected && last.Len() > p.protectable {
		oldest := last.Front()
		q.pull(oldest)
		q.blocks.entries[oldest].rank = probation
		q.push(oldest)
	}
}
