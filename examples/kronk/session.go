package kronk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

// Session is the state of one conversation, from Sessions.Open to Close. One goroutine uses it at a time.
type Session struct {
	of     *Sessions
	key    states.Key
	id     states.ID
	bytes  int    // that are committed; 0: nothing, or it is about to be replaced
	staged []byte // by Prepare, nil after Commit
	closed bool
}

const part = "session"

// Len is how many bytes Bytes returns: 0 from Prepare until Commit succeeds.
func (s *Session) Len() int { return s.bytes }

// Cap is how much memory the session holds for what is being prepared. One that is not written to holds none.
func (s *Session) Cap() int { return cap(s.staged) }

// Bytes reads the committed state and verifies it; nil is that there is none, or that it had to go for others' room, and then Len is 0. The
// slice is the caller's. states.ErrDamaged is one that cannot be read any more as it was committed; then there is none.
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

// Prepare begins to replace the state, and returns memory for the new one, which is the caller's until the next call. The old one is still
// stored: whoever opens the session before a Commit has succeeded, such as after a crash, finds it.
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

// Commit stores the first n bytes of what was prepared. After an error Len is 0, and Commit may be called again, such as when there is room.
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

// Reset forgets the state, also on the disk. If that fails Len is 0, and the session may have it again when it is opened next: call Reset again.
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

// Close keeps what is committed, for the next who opens the name. Other calls fail after it with states.ErrClosed; Close does nothing.
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
