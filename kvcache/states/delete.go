package states

import (
	"context"
	"path/filepath"
)

// Delete removes a state, even if it is pinned, and its copy in Options.Copies, even if the state is not in the directory. It returns ErrMiss if there
// is neither. After another error the state may still be there, or be there again after a crash; call Delete again.
func (s *Store) Delete(id ID) error {
	n, copied, err := s.withCopies("delete", func(ctx context.Context) (bool, error) { return s.copies.delete(ctx, id) }, func() (int, error) {
		return s.deleteAll(func(st *state) bool { return st.ID == id })
	})
	if err == nil && n == 0 && !copied {
		err = ErrMiss{}
	}
	return err
}

// Clear removes all states of a salt, even if they are pinned, and returns their number. It also removes all copies of the salt in Options.Copies,
// whoever made them. After an error some may still be there, or be there again after a crash; call Clear again.
func (s *Store) Clear(salt string) (int, error) {
	n, _, err := s.withCopies("clear", func(ctx context.Context) (bool, error) { return false, s.copies.clear(ctx, salt) }, func() (int, error) {
		return s.deleteAll(func(st *state) bool { return st.Key.Salt == salt })
	})
	return n, err
}

// deleteAll removes states. The caller has entered.
func (s *Store) deleteAll(which func(*state) bool) (n int, err error) {
	s.mu.Lock()
	for a := range s.fetching {
		a.deleted(which)
	}
	for _, st := range s.states {
		if err == nil && which(st) {
			if err = s.forget(st); err == nil {
				n++
			}
		}
	}
	s.mu.Unlock()
	if err == nil {
		err = s.o.disk.sync(filepath.Join(s.dir, "states"))
	}
	if err != nil {
		return n, failed("delete", err)
	}
	return n, nil
}

// Pin exempts a state from eviction, or makes it evictable again if pinned is false. The choice is stored with the state. Pinned states count
// against the budget; if they take all of it, there is no room for others. Pin returns ErrMiss if there is no such state.
func (s *Store) Pin(id ID, pinned bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	st := s.acquire(id) // so that it is not what goes for its manifest's room
	if st == nil {
		return ErrMiss{}
	}
	err := s.pin(st, pinned)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread(st)
	if err == nil || err == error(ErrMiss{}) {
		return err
	}
	return failed("pin", err)
}

func (s *Store) pin(st *state, pinned bool) error {
	s.mu.Lock()
	other := *st
	s.mu.Unlock()
	if other.Pinned == pinned {
		return nil
	}
	other.Pinned = pinned
	f, err := s.draftManifest(&other, func(n int64) error {
		if s.spare(n) == nil { // of what Put leaves, until it has replaced the other: else a store that is full of pinned states would stay so
			return nil
		}
		return s.reserve(n)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.gone {
		err = ErrMiss{}
	} else if err = f.finish(); err == nil {
		s.touch(st.ID, st.Used)
		s.used -= st.size
		st.Pinned, st.size = pinned, other.size
	}
	if err != nil {
		s.scrap(f, other.size)
	}
	return err
}
