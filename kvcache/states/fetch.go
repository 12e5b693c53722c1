// A state that another machine has copied into the tier comes into this directory: as a whole and verified, or not at all.

package states

import (
	"context"
	"errors"
)

// Fetch is like Find, but if the directory does not have the state, it puts a copy from Options.Copies into the directory. It returns ErrMiss if there
// is no complete copy, joined with ErrCopies if the tier failed. Other errors are those of Put.
func (s *Store) Fetch(ctx context.Context, k Key) (Info, error) {
	info, err := s.Find(k)
	if s.copies == nil || err == nil || !errors.Is(err, ErrMiss{}) {
		return info, err
	}
	info, _, e := s.fetch(ctx, func() (*state, int, error) {
		st, err := s.copies.record(ctx, s.names.stateKey(s.names.id(&k)), func(id ID) bool { return id == s.names.id(&k) }, k.Identity)
		return st, 0, err
	})
	return info, orMiss(err, e)
}

// FetchNearest is like Nearest, but if a copy in Options.Copies saves more of the prompt than the states in the directory, it puts that copy into the
// directory first. If that fails, it returns the nearest state of the directory and no error, if there is one; otherwise its errors are those of Fetch.
// Copies are found by prefixes of whole multiples of 256 tokens, so the best copy may save up to 255 tokens more than the one that is chosen. A prompt
// without copies costs two calls of the tier. The context bounds the time.
func (s *Store) FetchNearest(ctx context.Context, i Identity, tokens []uint32) (Info, int, error) {
	return s.fetchNear(ctx, i, tokens, false)
}

// FetchWhole is to NearestWhole what FetchNearest is to Nearest. It asks the tier for at most one record per 256 tokens of the prompt, one after
// the other.
func (s *Store) FetchWhole(ctx context.Context, i Identity, tokens []uint32) (Info, int, error) {
	return s.fetchNear(ctx, i, tokens, true)
}

func (s *Store) fetchNear(ctx context.Context, i Identity, tokens []uint32, whole bool) (Info, int, error) {
	near := s.Nearest
	if whole {
		near = s.NearestWhole
	}
	info, n, err := near(i, tokens)
	if s.copies == nil || err != nil && !errors.Is(err, ErrMiss{}) {
		return info, n, err
	}
	got, m, e := s.fetch(ctx, func() (*state, int, error) { return s.copies.nearest(ctx, i, tokens, n, whole) })
	if e == nil {
		return got, m, nil
	}
	return info, n, orMiss(err, e)
}

// orMiss is the error of a call that found nothing here, which err says, and brought nothing here, since e.
func orMiss(err, e error) error {
	switch {
	case e == nil || err == nil:
		return nil
	case errors.Is(e, ErrMiss{}):
		return err
	case errors.As(e, new(ErrCopies)):
		return errors.Join(err, e)
	}
	return e
}

// fetch brings a state here that find finds among the copies.
func (s *Store) fetch(ctx context.Context, find func() (*state, int, error)) (Info, int, error) {
	if err := s.enter(); err != nil {
		return Info{}, 0, err
	}
	defer s.leave()
	a := &arrival{}
	s.mu.Lock()
	if s.fetching == nil {
		s.fetching = map[*arrival]struct{}{}
	}
	s.fetching[a] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.fetching, a)
	}()
	st, n, err := find()
	if err != nil {
		return Info{}, 0, err
	}
	s.mu.Lock()
	a.found(st)
	gone := st.gone
	s.mu.Unlock()
	if gone {
		return Info{}, 0, ErrMiss{}
	}
	info, err := s.takeIn(ctx, st)
	return info, n, err
}

// arrival is a copy on its way here. It is gone where it is deleted meanwhile. The store's lock guards it.
type arrival struct {
	st      *state              // nil: it has not been found yet
	without []func(*state) bool // what was deleted until then
}

func (a *arrival) found(st *state) {
	a.st = st
	for _, which := range a.without {
		a.deleted(which)
	}
	a.without = nil
}

func (a *arrival) deleted(which func(*state) bool) {
	if a.st == nil {
		a.without = append(a.without, which)
	} else if which(a.st) {
		a.st.gone = true
	}
}
