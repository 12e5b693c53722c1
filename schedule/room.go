package schedule

import "slices"

// waits reports whether a request that found too few blocks waits until others have given some back.
func (s *Scheduler[B]) waits(r *request[B], again bool) bool { return r.tried && !again && s.others(r) }

// others reports whether another request has blocks that it will give back.
func (s *Scheduler[B]) others(than *request[B]) bool {
	return slices.ContainsFunc(s.queue, func(r *request[B]) bool {
		return r != than && (r.state == running || r.state == opening)
	})
}

// makeRoom takes the blocks of the request that came last, and reports whether there was another one.
func (s *Scheduler[B]) makeRoom() bool {
	if s.giveUpOne(nil) {
		return true
	}
	var last *request[B]
	count := 0
	for _, r := range s.queue {
		if r.state == running {
			last, count = r, count+1
		}
	}
	if count < 2 {
		return false
	}
	last.report.Suspended++
	s.count(func(st *Stats) { st.Preempted++ })
	if last.seq.Suspend() == nil {
		last.state, last.tried = suspended, true
	} else { // such as for lack of host memory
		s.giveUp(last)
	}
	return true
}

// giveUpOne has the last of those that wait for blocks give up the ones that it found.
func (s *Scheduler[B]) giveUpOne(but *request[B]) bool {
	for _, r := range slices.Backward(s.queue) {
		if r != but && r.state == waitingForBlocks && r.seq != nil {
			s.giveUp(r)
			return true
		}
	}
	return false
}

// giveUp has a request wait to be opened again. What it computed stays in the cache until others need the room.
func (s *Scheduler[B]) giveUp(r *request[B]) {
	_ = r.seq.Release() // as in end
	r.seq, r.state, r.tried = nil, waiting, true
}
