package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"

// evictionGroups are all shares. Those that have cached blocks stand in one of two heaps, with
// the one whose turn it is at the top.
type evictionGroups struct {
	common  *evictionGroup
	heap    intrusive.Heap[*evictionGroup] // those of which a block can be evicted for anybody
	floored intrusive.Heap[*evictionGroup] // those that their floors protect
	limited int                            // tenants that have a share of their own
	spare   int                            // blocks that can be evicted for anybody
}

func (t *Tree) newGroup(l Limits) *evictionGroup {
	s := &evictionGroup{t: t, limits: l}
	s.queue = queues[t.policy](t.policies, s.room())
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
	var home *intrusive.Heap[*evictionGroup]
	switch {
	case spare > 0:
		home = &ss.heap
	case s.queued > 0:
		home = &ss.floored
	}
	moves := home != s.home
	if moves && s.home != nil {
		s.home.Remove(s)
	}
	if s.home = home; home == nil {
		return
	}
	if turn := s.queue.Turn(); moves || turn != s.turn {
		s.turn = turn
		home.Put(s)
	}
}

func newGroupHeap() intrusive.Heap[*evictionGroup] {
	return intrusive.NewHeap(
		func(a, b *evictionGroup) bool { return a.turn.Before(b.turn) },
		func(s *evictionGroup) *int32 { return &s.place },
	)
}

// victim is the share that gives the next block for a tenant of group own: its own
// blocks can go whatever its floor is.
func (ss *evictionGroups) victim(own *evictionGroup) *evictionGroup {
	if best := ss.heap.Top(); best != nil && (own.queued == 0 || !own.turn.Before(best.turn)) {
		return best
	}
	return own
}

// anyVictim is the share that gives the next block whatever the floors.
func (ss *evictionGroups) anyVictim() *evictionGroup {
	best, floored := ss.heap.Top(), ss.floored.Top()
	if best == nil || floored != nil && floored.turn.Before(best.turn) {
		return floored
	}
	return best
}
