package prefix

// shares are all shares, and a heap of those of which a block can be evicted for
// anybody, with the one whose turn it is at the top.
type shares struct {
	common *share
	heap   []*share
	spare  int // blocks that can be evicted for anybody
}

func (t *Tree) newShare() *share {
	return &share{t: t, ranker: newRanker(t.policy), place: -1}
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
	if spare > 0 {
		first := s.queues[0]
		s.turn = [2]uint64{uint64(first.rank), s.t.entries[first.head].stamp}
	}
	switch {
	case spare > 0 && s.place < 0:
		s.place = len(ss.heap)
		ss.heap = append(ss.heap, s)
		ss.up(s)
	case spare > 0:
		ss.up(s)
		ss.down(s)
	case s.place >= 0:
		last := ss.heap[len(ss.heap)-1]
		ss.heap = ss.heap[:len(ss.heap)-1]
		if last != s {
			ss.put(last, s.place)
			ss.up(last)
			ss.down(last)
		}
		s.place = -1
	}
}

// before orders shares by the rank of their fronts, then by their age.
func (s *share) before(o *share) bool {
	return s.turn[0] < o.turn[0] || s.turn[0] == o.turn[0] && s.turn[1] < o.turn[1]
}

func (ss *shares) put(s *share, i int) { ss.heap[i], s.place = s, i }

func (ss *shares) up(s *share) {
	for s.place > 0 {
		above := ss.heap[(s.place-1)/2]
		if !s.before(above) {
			return
		}
		i := above.place
		ss.put(above, s.place)
		ss.put(s, i)
	}
}

func (ss *shares) down(s *share) {
	for {
		next := s
		for i := 2*s.place + 1; i <= 2*s.place+2 && i < len(ss.heap); i++ {
			if ss.heap[i].before(next) {
				next = ss.heap[i]
			}
		}
		if next == s {
			return
		}
		i := next.place
		ss.put(next, s.place)
		ss.put(s, i)
	}
}

// victim is the share that gives the next block for a tenant of share own: his own
// blocks are his whatever his floor.
func (ss *shares) victim(own *share) *share {
	var best *share
	if len(ss.heap) > 0 {
		best = ss.heap[0]
	}
	if own.queued > 0 && own.place < 0 {
		first := own.queues[0]
		own.turn = [2]uint64{uint64(first.rank), own.t.entries[first.head].stamp}
		if best == nil || own.before(best) {
			best = own
		}
	}
	return best
}
