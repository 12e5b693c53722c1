package prefix

// shares are all shares. Those that have cached blocks stand in one of two heaps, with
// the one whose turn it is at the top.
type shares struct {
	common  *share
	heap    heap[*share] // those of which a block can be evicted for anybody
	floored heap[*share] // those that their floors protect
	limited int          // tenants that have a share of their own
	spare   int          // blocks that can be evicted for anybody
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
	ss.spare += spare - s.spare
	s.spare = spare
	var home *heap[*share]
	switch {
	case spare > 0:
		home = &ss.heap
	case s.queued > 0:
		home = &ss.floored
	}
	moves := home != s.home
	if moves && s.home != nil {
		s.home.remove(s)
	}
	if s.home = home; home == nil {
		return
	}
	if turn := s.first(); moves || turn != s.turn {
		s.turn = turn
		home.put(s)
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
	if best := ss.heap.top(); best != nil && (own.queued == 0 || !own.turn.before(best.turn)) {
		return best
	}
	return own
}

// anyVictim is the share that gives the next block whatever the floors.
func (ss *shares) anyVictim() *share {
	best, floored := ss.heap.top(), ss.floored.top()
	if best == nil || floored != nil && floored.turn.before(best.turn) {
		return floored
	}
	return best
}
