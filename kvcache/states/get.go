package states

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Get reads a state, and verifies all of it before it returns any of it. The parts are stored one after the other in room if its capacity is at
// least Info.Bytes, and in newly allocated memory otherwise. The caller owns them; the store keeps no reference. After an error nothing of the state is
// in room. Get returns ErrMiss if the state is not there any more, and ErrDamaged if it cannot be read as it was put; the store has then given it up.
func (s *Store) Get(ctx context.Context, id ID, room []byte) ([]Part, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	st := s.acquire(id)
	if st == nil {
		return nil, ErrMiss{}
	}
	if int64(cap(room)) < st.Bytes {
		room = make([]byte, st.Bytes)
	}
	room = room[:st.Bytes]
	err := s.readAll(ctx, st, room)
	if err = s.settle(st, err); err != nil {
		clear(room)
		return nil, err
	}
	out := make([]Part, len(st.Parts))
	for i, p := range st.Parts {
		out[i] = Part{p.Name, room[:p.Bytes:p.Bytes]}
		room = room[p.Bytes:]
	}
	return out, nil
}

// acquire finds a state for reading: its chunks stay until unread. nil: it is not there.
func (s *Store) acquire(id ID) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[id]
	if st == nil {
		s.stats.Missed++
		return nil
	}
	st.readers++
	return st
}

// settle ends the reading of a state that went as err says: it has been used, or is given up where it is lost.
func (s *Store) settle(st *state, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.unread(st)
	var lost errLost
	switch {
	case err == nil:
		s.stats.Got++
		if !st.gone {
			st.Used = s.o.now()
			s.touch(st.ID, st.Used)
		}
	case errors.As(err, &lost):
		err = ErrDamaged{st.ID, lost.Error()}
		if !st.gone {
			s.stats.Damaged++
			if e := s.forget(st); e != nil {
				err = errors.Join(err, e)
			}
		}
	case !errors.As(err, new(ErrConfig)):
		err = failed("get", err)
	}
	return err
}

// unread ends the use of a state. The caller has the lock.
func (s *Store) unread(st *state) {
	if st.readers--; st.gone && st.readers == 0 {
		s.drop(st)
	}
}

// piece is a chunk and where it goes.
type piece struct {
	chunk
	*held
	was place // when the call began
	to  []byte
}

// readAll reads the chunks of a state, several at once: what takes time is to verify them.
func (s *Store) readAll(ctx context.Context, st *state, room []byte) error {
	var pieces []piece
	s.mu.Lock()
	st.each(func(c chunk) {
		h := s.chunks[c.Sum]
		pieces = append(pieces, piece{c, h, h.place, room[:c.Bytes:c.Bytes]})
		room = room[c.Bytes:]
	})
	s.mu.Unlock()
	slices.SortFunc(pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.was.pack.number, b.was.pack.number), cmp.Compare(a.was.at, b.was.at))
	})
	var next atomic.Int64
	var all sync.WaitGroup
	var once sync.Once
	var failure error
	for range min(runtime.GOMAXPROCS(0), mostReaders, len(pieces)) {
		all.Go(func() {
			w := s.work(st.Key.Salt)
			defer s.release(w)
			for i := next.Add(1) - 1; i < int64(len(pieces)); i = next.Add(1) - 1 {
				err := ctx.Err()
				if err == nil {
					err = s.read(w, pieces[i].chunk, pieces[i].held, pieces[i].to, false)
				}
				if err != nil {
					once.Do(func() { failure = err })
					next.Store(int64(len(pieces)))
					return
				}
			}
		})
	}
	all.Wait()
	return failure
}

// mostReaders is how many goroutines read a state.
const mostReaders = 8
