package kvstore

import (
	"context"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Store is the snapshot of one name, from Dir.Open to Close. One goroutine uses it at a time.
type Store struct {
	dir       *Dir
	name      string
	committed *list  // nil: nothing, or it is about to be replaced
	damage    error  // the list cannot be read
	staged    []byte // by Prepare, nil after Commit
	closed    bool
}

// Len is how many bytes Bytes returns: 0 from Prepare until Commit succeeds.
func (s *Store) Len() int { return s.committed.bytes() }

// Cap is how much memory the store holds for what is being prepared. A store that is not written to holds none.
func (s *Store) Cap() int { return cap(s.staged) }

// Bytes reads the committed snapshot and verifies it; nil is that there is none. The slice is new, and the caller's. ErrCorrupt is a
// snapshot that cannot be read any more as it was committed.
func (s *Store) Bytes(ctx context.Context) ([]byte, error) {
	if err := s.usable(ctx, "read"); err != nil {
		return nil, err
	}
	if s.damage != nil {
		return nil, s.damage
	}
	n := s.Len()
	if n == 0 {
		return nil, nil
	}
	out := make([]byte, n)
	rest := out
	for _, c := range s.committed.Chunks {
		if err := ctx.Err(); err != nil {
			return nil, failed(s.name, "read", err)
		}
		if err := s.dir.read(s.name, c, rest[:c.Bytes]); err != nil {
			return nil, err
		}
		rest = rest[c.Bytes:]
	}
	return out, nil
}

// Prepare begins to replace the snapshot, and returns memory for the new one, which is the caller's until the next call. The old one is still on
// the disk: whoever opens the store before a Commit has succeeded, such as after a crash, finds it.
func (s *Store) Prepare(ctx context.Context, size int) ([]byte, error) {
	if err := s.usable(ctx, "prepare"); err != nil {
		return nil, err
	}
	if size < 0 || int64(size) > largest {
		return nil, argument("Store.Prepare", "%d bytes: at least 0, at most %d", size, int64(largest))
	}
	s.committed, s.damage = nil, nil
	if s.staged == nil || cap(s.staged) < size {
		s.staged = make([]byte, size)
	}
	s.staged = s.staged[:size]
	return s.staged, nil
}

// Commit stores the first n bytes of what was prepared: chunks that are not there yet, then the list, which makes them the snapshot. After an
// error Len is 0, and Commit may be called again, such as when there is room on the disk.
func (s *Store) Commit(ctx context.Context, n int) (err error) {
	if err := s.usable(ctx, "commit"); err != nil {
		return err
	}
	if s.staged == nil {
		return argument("Store.Commit", "nothing is prepared: call Prepare first")
	}
	if n < 0 || n > len(s.staged) {
		return argument("Store.Commit", "%d bytes, of %d that were prepared", n, len(s.staged))
	}
	l := &list{Name: s.name}
	defer func() {
		if err != nil {
			s.dir.drop(l.Chunks)
			err = failed(s.name, "commit", err)
		}
	}()
	for rest := s.staged[:n]; len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		size := s.dir.sizes.cut(rest)
		c, err := s.dir.keep(rest[:size])
		if err != nil {
			return err
		}
		l.Chunks, rest = append(l.Chunks, c), rest[size:]
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.dir.replace(s.name, l); err != nil {
		return err
	}
	s.committed, s.staged = l, nil
	return nil
}

// Reset forgets the snapshot, also on the disk. If that fails Len is 0, and the store may have it again when it is opened next: call Reset again.
func (s *Store) Reset(ctx context.Context) error {
	if err := s.usable(ctx, "reset"); err != nil {
		return err
	}
	clear(s.staged[:cap(s.staged)])
	s.committed, s.damage, s.staged = nil, nil, nil
	if err := s.dir.replace(s.name, &list{Name: s.name}); err != nil {
		return failed(s.name, "reset", err)
	}
	return nil
}

// Close keeps what is committed, for the next who opens the name. Other calls fail after it with backend.ErrClosed; Close does nothing.
func (s *Store) Close() error {
	if s.closed || s.dir == nil {
		return nil
	}
	s.closed, s.committed, s.staged = true, nil, nil
	s.dir.mu.Lock()
	defer s.dir.mu.Unlock()
	delete(s.dir.open, s.name)
	return nil
}

func (s *Store) usable(ctx context.Context, op string) error {
	if s.closed || s.dir == nil {
		return failed(s.name, op, backend.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return failed(s.name, op, err)
	}
	return nil
}
