package states

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// Get reads a state, and verifies all of it before it returns any of it. The parts lie one after the other in room, if it has a capacity of
// Info.Bytes, or in new memory; they are the caller's. After an error room is zeros. ErrMiss is a state that is not there any more, and
// ErrDamaged one that cannot be read as it was put, which has been given up.
func (s *Store) Get(ctx context.Context, id ID, room []byte) ([]Part, error) {
	st, err := s.acquire(id)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	if int64(cap(room)) < st.Bytes {
		room = make([]byte, st.Bytes)
	}
	room = room[:st.Bytes]
	err = s.readAll(ctx, st, room)
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

// acquire finds a state for reading: its chunks stay until settle.
func (s *Store) acquire(id ID) (*state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return nil, ErrClosed
	}
	if err := s.expire(); err != nil {
		return nil, failed("get", err)
	}
	st := s.states[id]
	if st == nil {
		s.stats.Missed++
		return nil, ErrMiss{}
	}
	st.readers++
	s.calls++
	return st, nil
}

// settle ends the reading of a state that went as err says: it has been used, or is given up where it is lost.
func (s *Store) settle(st *state, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.readers--
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
			return err
		}
	case !errors.As(err, new(ErrConfig)):
		err = failed("get", err)
	}
	if st.gone && st.readers == 0 {
		s.drop(st)
	}
	return err
}

// piece is a chunk and where it goes.
type piece struct {
	chunk
	to []byte
}

// readAll reads the chunks of a state, several at once: what takes time is to verify them.
func (s *Store) readAll(ctx context.Context, st *state, room []byte) error {
	var pieces []piece
	st.each(func(c chunk) {
		pieces = append(pieces, piece{c, room[:c.Bytes]})
		room = room[c.Bytes:]
	})
	var next atomic.Int64
	var all sync.WaitGroup
	var once sync.Once
	var failure error
	for range min(runtime.GOMAXPROCS(0), mostReaders, len(pieces)) {
		all.Go(func() {
			w := s.work(st.Key.Salt)
			defer s.coders.Put(w)
			for i := next.Add(1) - 1; i < int64(len(pieces)); i = next.Add(1) - 1 {
				err := ctx.Err()
				if err == nil {
					err = s.read(w, pieces[i].chunk, pieces[i].to, false)
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
