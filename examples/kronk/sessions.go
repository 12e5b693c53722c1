package kronk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

// Sessions are the conversations of one model, each of which has a name. They may be used by as many goroutines as there are sessions.
type Sessions struct {
	store    *states.Store
	identity states.Identity

	mu   sync.Mutex
	open map[string]bool
}

// New returns the sessions of an identity in a store, which the caller closes after them.
func New(store *states.Store, identity states.Identity) *Sessions {
	return &Sessions{store: store, identity: identity, open: map[string]bool{}}
}

// ErrOpen is a session that is open: close it first.
type ErrOpen struct{ Name string }

func (e ErrOpen) Error() string {
	return fmt.Sprintf("kronk: session %q is open; close it first", e.Name)
}

// Open opens the session of a name, which has what was last committed there for this identity, or nothing. ErrOpen is one that is open.
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

// Factory makes sessions for an engine that has one conversation of that name and several stores for it, and says of none which it is: the first
// is the session of the name, the others have "/2", "/3" after it, each the first that is not open. An engine that asks in the same order
// finds in them what it committed; one that takes new stores for empty replaces that.
func (s *Sessions) Factory(name string) func(context.Context) (*Session, error) {
	return func(ctx context.Context) (*Session, error) {
		out, err := s.Open(ctx, name)
		for n := 2; errors.As(err, &ErrOpen{}); n++ {
			out, err = s.Open(ctx, fmt.Sprintf("%s/%d", name, n))
		}
		return out, err
	}
}
