package states

import (
	"errors"
	"time"
)

// claim counts bytes that are about to be written, if there is room for them beside what is to be left. The caller has the lock.
func (s *Store) claim(n, leave, free int64) error {
	if s.used+n > s.o.Bytes-leave || free-n < s.o.Floor {
		return ErrFull{Need: n, Used: s.used + leave, Budget: s.o.Bytes, Free: free, Floor: s.o.Floor}
	}
	s.used += n
	return nil
}

// spare is claim without anything that goes for it.
func (s *Store) spare(n int64) error {
	free, _, err := s.o.disk.space(s.dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claim(n, 0, free)
}

// ahead is spare of bytes that may be written later, far from the limits: what others write until then, without these in sight, does not reach them.
func (s *Store) ahead(n int64) bool {
	free, _, err := s.o.disk.space(s.dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && s.claim(n, s.packBytes, free-mostPack) == nil
}

// reserve counts bytes that are about to be written, and makes room for them: what is dead goes first, and then states that were used least lately. It
// leaves as much of the budget as a pack has, so that there is always room to rewrite one.
func (s *Store) reserve(n int64) error {
	free, _, err := s.o.disk.space(s.dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	err = s.claim(n, s.packBytes, free)
	s.mu.Unlock()
	if !errors.Is(err, ErrFull{}) {
		return err
	}
	s.making.Lock() // one at a time: what one gets back may be enough for the next
	defer s.making.Unlock()
	if free, _, err = s.o.disk.space(s.dir); err != nil {
		return err
	}
	s.mu.Lock()
	before := s.used
	s.mu.Unlock()
	tried := map[*pack]bool{} // since the last state went: one that cannot be rewritten must not keep the next from going
	for share := int64(pressing); ; {
		s.mu.Lock()
		full := s.claim(n, s.packBytes, free+before-s.used) // which some file systems give back later
		s.mu.Unlock()
		if full == nil {
			return nil
		}
		if s.tidy(share, tried) {
			continue
		}
		if gone, err := s.evict(); err != nil {
			return err
		} else if !gone {
			if share == every {
				return full
			}
			share = every
		}
		clear(tried)
	}
}

// evict forgets the state that was used least lately of those that may go; false: none may.
func (s *Store) evict() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out *state
	for _, st := range s.states {
		if !st.Pinned && st.readers == 0 && (out == nil || st.Used.Before(out.Used)) {
			out = st
		}
	}
	if out == nil {
		return false, nil
	}
	if err := s.forget(out); err != nil {
		return false, err
	}
	s.stats.Evicted++
	return true, nil
}

// expire forgets the states whose lifetime is over. Those whose manifests cannot be removed are misses, too, and a later call removes them. The
// caller has the lock.
func (s *Store) expire() {
	if now := s.o.now(); !s.expires.IsZero() && !now.Before(s.expires) { // else without a look at each: every call comes here
		s.expires = time.Time{}
		for _, st := range s.states {
			if st.Expires.IsZero() || now.Before(st.Expires) {
				s.willExpire(st)
				continue
			}
			s.stats.Expired++
			s.hide(st)
			s.over = append(s.over, st)
		}
	}
	for n := len(s.over); n > 0; n = len(s.over) {
		st := s.over[n-1]
		if s.states[st.ID] == nil && s.o.disk.remove(s.manifestPath(st.ID)) != nil { // where it is not nil, a Put has replaced the manifest
			return
		}
		s.over = s.over[:n-1]
		s.unmake(st)
	}
}

// willExpire notes when expire has to look at a state. The caller has the lock.
func (s *Store) willExpire(st *state) {
	if !st.Expires.IsZero() && (s.expires.IsZero() || st.Expires.Before(s.expires)) {
		s.expires = st.Expires
	}
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
	s.hide(st)
	s.unmake(st)
}

// hide has nobody find a state, and unmake gives back what it takes.
func (s *Store) hide(st *state) {
	delete(s.states, st.ID)
	s.index.remove(st)
}

func (s *Store) unmake(st *state) {
	s.used -= st.size
	st.gone = true
	if st.readers == 0 {
		s.drop(st)
	}
}
