package policy

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

const (
	probation = iota
	protected
)

// Segmented is LRU in two segments: a fifth of room is for blocks that were taken again.
func Segmented(b *Blocks, room int) Queue { return &segmented{lru{Blocks: b}, room / 5} }

func (q *segmented) Touch(id uint32, _ bool) { q.entries[id].rank = protected }

func (q *segmented) Insert(id uint32, priority uint8) {
	q.lru.Insert(id, priority)
	last := &q.levels[len(q.levels)-1]
	if last.rank == protected && last.Len() > q.protectable {
		oldest := last.Front()
		q.pull(oldest)
		q.entries[oldest].rank = probation
		q.push(oldest)
	}
}
