package prefix

// shares are all shares, and a heap of those of which a block can be evicted for
// anybody, with the one whose turn it is at the top.
type shares struct {
	common  *share
	heap    heap[*share]
	limited int // tenants that have a share of their own
	spare   int // blocks that can be evicted for anybody
}

func (t *Tree) newShare(l Limits) *share {
	s := &share{t: t, limits: l}
	s.ranker = newRanker(t, s.room())
	return s
}

// room is the number of blocks that the share may fill.
func (s *share) room() int {
	if s.limits.Quota > 0 {
		return min(s.limits.Quota, s.t.alloc.Total())
	}
	return s.t.alloc.Total()
}

// changed puts a share in its place after its blocks or limits have changed.
func (ss *shares) changed(s *share) {
	spare := max(min(s.queued, s.blocks-s.limits.Floor), 0)
	had := s.spare
	ss.spare += spare - had
	s.spare = spare
	if spare == 0 {
		ss.heap.remove(s)
	} else if turn := s.first(); had == 0 || turn != s.turn {
		s.turn = turn
		ss.heap.put(s)
	}
}

func newShareHeap() heap[*share] {
	return heap[*share]{
		before: func(a, b *share) bool { return a.turn.before(b.turn) },
		place:  func(s *share) *int32 { return &s.place },
	}
}

// turn says when a share gives a block: by the rank of its front, then by its age.
type turn struct {
	rank  uint32
	stamp uint64
}

func (a turn) before(b turn) bool {
	return a.rank < b.rank || a.rank == b.rank && a.stamp < b.stamp
}

// first is the turn of a share that has cached blocks.
func (s *share) first() turn {
	q := s.queues[0]
	return turn{q.rank, s.t.entries[q.head].stamp}
}

// victim is the share that gives the next block for a tenant of share own: his own
// blocks are his whatever his floor.
func (ss *shares) victim(own *share) *share {
	var best *share
	if len(ss.heap.items) > 0 {
		best = ss.heap.items[0]
	}
	if own.queued > 0 && (best == nil || own.first().before(best.turn)) {
		return own
	}
	return best
}
