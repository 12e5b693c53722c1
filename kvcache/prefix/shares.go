package prefix

// evictionGroups are all shares. Those that have cached blocks stand in one of two heaps, with
// the one whose turn it is at the top.
type evictionGroups struct {
	common  *evictionGroup
	heap    heap[*evictionGroup] // those of which a block can be evicted for anybody
	floored heap[*evictionGroup] // those that their floors protect
	limited int                  // tenants that have a share of their own
	spare   int                  // blocks that can be evicted for anybody
}

func (t *Tree) newGroup(l Limits) *evictionGroup {
	s := &evictionGroup{t: t, limits: l}
	s.policy = newEvictionPolicy(t, s.room())
	return s
}

// room is the number of blocks that the share may fill.
func (s *evictionGroup) room() int {
	if s.limits.Quota > 0 {
		return min(s.limits.Quota, s.t.alloc.Total())
	}
	return s.t.alloc.Total()
}

// changed puts a share in its place after its blocks or limits have changed.
func (ss *evictionGroups) changed(s *evictionGroup) {
	spare := max(min(s.queued, s.blocks-s.limits.Floor), 0)
	ss.spare += spare - s.spare
	s.spare = spare
	var home *heap[*evictionGroup]
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

func newGroupHeap() heap[*evictionGroup] {
	return heap[*evictionGroup]{
		before: func(a, b *evictionGroup) bool { return a.turn.before(b.turn) },
		place:  func(s *evictionGroup) *int32 { return &s.place },
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
func (s *evictionGroup) first() turn {
	q := s.queues[0]
	return turn{q.rank, s.t.entries[q.head].stamp}
}

// victim is the share that gives the next block for a tenant of group own: its own
// blocks can go whatever its floor is.
func (ss *evictionGroups) victim(own *evictionGroup) *evictionGroup {
	if best := ss.heap.top(); best != nil && (own.queued == 0 || !own.turn.before(best.turn)) {
		return best
	}
	return own
}

// anyVictim is the share that gives the next block whatever the floors.
func (ss *evictionGroups) anyVictim() *evictionGroup {
	best, floored := ss.heap.top(), ss.floored.top()
	if best == nil || floored != nil && floored.turn.before(best.turn) {
		return floored
	}
	return best
}
