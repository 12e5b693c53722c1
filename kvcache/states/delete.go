package states

import "path/filepath"

// Delete removes a state, also where it is pinned. After an error that is not ErrMiss it may be there still, or again after a crash: call it again.
func (s *Store) Delete(id ID) error {
	n, err := s.deleteAll(func(st *state) bool { return st.ID == id })
	if err == nil && n == 0 {
		err = ErrMiss{}
	}
	return err
}

// Clear removes all states of a salt, also those that are pinned, and returns how many. After an error some may be there still, or again
// after a crash: call it again.
func (s *Store) Clear(salt string) (int, error) {
	return s.deleteAll(func(st *state) bool { return st.Key.Salt == salt })
}

func (s *Store) deleteAll(which func(*state) bool) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return 0, ErrClosed
	}
	if err := s.expire(); err != nil {
		return 0, failed("delete", err)
	}
	for _, st := range s.states {
		if !which(st) {
			continue
		}
		if err := s.forget(st); err != nil {
			return n, failed("delete", err)
		}
		n++
	}
	if err := s.o.disk.sync(filepath.Join(s.dir, "states")); err != nil {
		return n, failed("delete", err)
	}
	return n, nil
}

// Pin says whether a state may be evicted for others' room. It is kept with the state. Pinned states count for the budget, and those that
// take all of it leave none for others.
func (s *Store) Pin(id ID, pinned bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return ErrClosed
	}
	if err := s.expire(); err != nil {
		return failed("pin", err)
	}
	st := s.states[id]
	if st == nil {
		return ErrMiss{}
	}
	st.readers++ // so that it is not what goes for its manifest's room
	defer func() { st.readers-- }()
	was, size := st.Pinned, st.size
	if st.Pinned = pinned; pinned == was {
		return nil
	}
	if err := s.writeManifest(st); err != nil {
		st.Pinned = was
		return failed("pin", err)
	}
	s.used -= size
	return nil
}
