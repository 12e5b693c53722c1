package states

// reserve counts the bytes of a file that is about to be written, and makes room for it. The caller has the lock.
func (s *Store) reserve(n int64) error {
	free, _, err := s.o.disk.space(s.dir)
	if err != nil {
		return err
	}
	for s.used+n > s.o.Bytes || free-n < s.o.Floor {
		victim := s.oldest()
		if victim == nil {
			return ErrFull{Need: n, Used: s.used, Budget: s.o.Bytes, Free: free, Floor: s.o.Floor}
		}
		before := s.used
		if err := s.forget(victim); err != nil {
			return err
		}
		s.stats.Evicted++
		free += before - s.used // which some file systems give back later
	}
	s.used += n
	return nil
}

// oldest is the state that was used least lately of those that may go; nil: none may. The caller has the lock.
func (s *Store) oldest() (out *state) {
	for _, st := range s.states {
		if !st.Pinned && st.readers == 0 && (out == nil || st.Used.Before(out.Used)) {
			out = st
		}
	}
	return out
}

// expire forgets the states whose lifetime is over. The caller has the lock.
func (s *Store) expire() error {
	now := s.o.now()
	for _, st := range s.states {
		if !st.Expires.IsZero() && !now.Before(st.Expires) {
			if err := s.forget(st); err != nil {
				return err
			}
			s.stats.Expired++
		}
	}
	return nil
}

func (s *Store) expireNow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expire()
}

// forget removes a state: its manifest, and the chunks that no other has, once nobody reads it. After an error it is as before. The caller
// has the lock.
func (s *Store) forget(st *state) error {
	if err := s.o.disk.remove(s.manifestPath(st.ID)); err != nil {
		return err
	}
	s.remove(st)
	return nil
}

// remove is forget of a state whose manifest is not there any more.
func (s *Store) remove(st *state) {
	delete(s.states, st.ID)
	s.index.remove(st)
	s.used -= st.size
	st.gone = true
	if st.readers == 0 {
		s.drop(st)
	}
}
