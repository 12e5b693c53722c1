package kronk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

// Session is the state of one conversation, from Sessions.Open to Close. It must not be used by several goroutines at once.
type Session struct {
	of     *Sessions
	key    states.Key
	id     states.ID
	bytes  int    // that are committed; 0: nothing, or it is about to be replaced
	staged []byte // by Prepare, nil after Commit
	closed bool
}

const part = "session"

// Len returns the number of bytes that Bytes would return. It is 0 from Prepare until Commit succeeds.
func (s *Session) Len() int { return s.bytes }

// Cap returns the number of bytes of memory that the session holds between Prepare and Commit. At other times it is 0.
func (s *Session) Cap() int { return cap(s.staged) }

// Bytes reads the committed state and verifies it. It returns nil if there is none or if it was evicted; Len is then 0. The caller owns the slice.
// Bytes returns states.ErrDamaged if the state cannot be read as it was committed; after that there is none.
func (s *Session) Bytes(ctx context.Context) ([]byte, error) {
	if err := s.usable(ctx); err != nil || s.bytes == 0 {
		return nil, err
	}
	parts, err := s.of.store.Get(ctx, s.id, nil)
	switch {
	case errors.Is(err, states.ErrMiss{}):
		s.bytes = 0
		return nil, nil
	case errors.Is(err, states.ErrDamaged{}):
		s.bytes = 0
		return nil, err
	case err != nil:
		return nil, err
	}
	return parts[0].Bytes, nil
}

// Prepare begins to replace the state, and returns size bytes of memory for the new one, which the caller may use until the next call. The old
// state remains stored until Commit succeeds: whoever opens the session before that, for example after a crash, finds it.
func (s *Session) Prepare(ctx context.Context, size int) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if size < 0 || int64(size) > min(s.of.store.Stats().Budget, math.MaxInt) {
		return nil, fmt.Errorf("kronk: %q: %d bytes: at least 0, at most the budget of the store", s.key.Name, size)
	}
	s.bytes = 0
	if s.staged == nil || cap(s.staged) < size {
		s.staged = make([]byte, size)
	}
	s.staged = s.staged[:size]
	return s.staged, nil
}

// Commit stores the first n bytes of the memory that Prepare returned; if n is 0, it resets the session. After an error Len is 0, and Commit may be
// called again, for example when there is room.
func (s *Session) Commit(ctx context.Context, n int) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if n < 0 || n > len(s.staged) || s.staged == nil {
		return fmt.Errorf("kronk: %q: %d bytes of %d that were prepared", s.key.Name, n, len(s.staged))
	}
	if n == 0 {
		return s.Reset(ctx)
	}
	info, err := s.of.store.Put(ctx, s.key, states.PutOptions{}, states.Source{Name: part, Content: bytes.NewReader(s.staged[:n])})
	if err != nil {
		return err
	}
	s.id, s.bytes, s.staged = info.ID, n, nil
	return nil
}

// Reset removes the state from the session and from the disk. After an error Len is 0, but the state may be there when the session is next opened;
// call Reset again.
func (s *Session) Reset(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	clear(s.staged[:cap(s.staged)])
	s.bytes, s.staged = 0, nil
	info, err := s.of.store.Find(s.key)
	if err == nil {
		err = s.of.store.Delete(info.ID)
	}
	if errors.Is(err, states.ErrMiss{}) {
		return nil
	}
	return err
}

// Close ends the session, and keeps what is committed for the next Open of its name. Later calls return states.ErrClosed, but a later Close does
// nothing.
func (s *Session) Close() error {
	if s.closed || s.of == nil {
		return nil
	}
	s.closed, s.bytes, s.staged = true, 0, nil
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	delete(s.of.open, s.key.Name)
	return nil
}

func (s *Session) usable(ctx context.Context) error {
	if s.closed || s.of == nil {
		return states.ErrClosed
	}
	return ctx.Err()
}
