// A store may have a tier with copies of its states. They are made in copy_queue.go and copy_out.go, found in fetch.go, and deleted in copy_delete.go.

package states

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// copies is a tier with copies of a store's states. Its mover bounds the time and memory that calls of the tier can take.
type copies struct {
	s     *Store
	mover *tier.Mover
	base  context.Context // of copying
	stop  context.CancelFunc
	ended chan struct{} // run has returned
	reads time.Duration // the most that Delete takes for what it reads

	mu      sync.Mutex
	changed sync.Cond
	queue   []ID               // of states to copy
	cancel  context.CancelFunc // of the one that is being copied; nil: none is
	holds   int                // calls of alone
	closing bool
}

// ErrCopies reports that the tier in Options.Copies failed, or that a copy was wrong. States in the directory are not affected.
// errors.Is(err, ErrCopies{}) matches any ErrCopies.
type ErrCopies struct {
	Op  string // "fetch", "delete", "clear" or "close"
	Err error  // what the tier returned, or what was wrong with the copy
}

func (e ErrCopies) Error() string {
	if e.Op == "delete" || e.Op == "clear" {
		return fmt.Sprintf("states: copies: %s: %v; some may be there still, call it again", e.Op, e.Err)
	}
	return fmt.Sprintf("states: copies: %s: %v", e.Op, e.Err)
}

// Is reports whether target is the zero ErrCopies.
func (e ErrCopies) Is(target error) bool { return target == error(ErrCopies{}) }
func (e ErrCopies) Unwrap() error        { return e.Err }

// openCopies starts copying into the tier of the options, if there is one.
func (s *Store) openCopies() error {
	if s.o.Copies == nil {
		return nil
	}
	if most, info := int64(filledSize(s.o.sizes.max)+sealedBytes), s.o.Copies.Info(); info.Largest > 0 && info.Largest < most {
		return badConfig("Copies", "tier %s has payloads of %d bytes at most, and copies have up to %d; give it larger ones", info.Name, info.Largest, most)
	}
	mover, err := tier.NewMover([]tier.Tier{s.o.Copies}, s.o.mover)
	if err != nil {
		return err
	}
	c := &copies{s: s, mover: mover, ended: make(chan struct{}), reads: deleteReads}
	c.changed.L = &c.mu
	c.base, c.stop = context.WithCancel(context.Background())
	s.copies = c
	go c.run()
	return nil
}
