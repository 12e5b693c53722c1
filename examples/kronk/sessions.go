package kronk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

// Sessions opens the conversations of one model, each of which has a name. Its methods may be called concurrently.
type Sessions struct {
	store    *states.Store
	identity states.Identity

	mu   sync.Mutex
	open map[string]bool
}

// New returns the sessions of an identity in a store. The caller closes the store, after all sessions.
func New(store *states.Store, identity states.Identity) *Sessions {
	return &Sessions{store: store, identity: identity, open: map[string]bool{}}
}

// ErrOpen reports a session that is already open; close it first.
type ErrOpen struct{ Name string }

func (e ErrOpen) Error() string {
	return fmt.Sprintf("kronk: session %q is open; close it first", e.Name)
}

// Open opens the session of a name. The session has what was last committed under that name and this identity, or nothing. Open returns ErrOpen if the
// session is already open.
func (s *Sessions) Open(ctx context.Context, name string) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := &Session{of: s, key: states.Key{Identity: s.identity, Name: name}}
	info, err := s.store.Find(out.key)
	if err != nil && !errors.Is(err, states.ErrMiss{}) {
		return nil, err
	}
	out.id, out.bytes = info.ID, int(info.Bytes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[name] {
		return nil, ErrOpen{name}
	}
	s.open[name] = true
	return out, nil
}

// Factory returns a factory for an engine that has several stores for one conversation and does not say which is which. The first store is the session
// of the name; for the others "/2", "/3" and so on is appended. The factory opens the first of these sessions that is not open. An engine that asks in
// the same order after a restart finds what it committed; an engine that takes new stores to be empty replaces it.
func (s *Sessions) Factory(name string) func(context.Context) (*Session, error) {
	return func(ctx context.Context) (*Session, error) {
		out, err := s.Open(ctx, name)
		for n := 2; errors.As(err, &ErrOpen{}); n++ {
			out, err = s.Open(ctx, fmt.Sprintf("%s/%d", name, n))
		}
		return out, err
	}
}
