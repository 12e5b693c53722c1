package prefix

import (
	"fmt"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Lease keeps a path from eviction for a time. It owns the path's blocks like a
// sequence, and gives them up by itself when its time is over.
type Lease struct {
	Match  Match
	blocks []block.Block
	until  int64 // nanoseconds since 1970
	serial uint64
	ended  bool
}

// leases is a heap by the end of their time. One that was released stays in it,
// without blocks, until then.
type leases []*Lease

func (l *Lease) less(o *Lease) bool {
	return l.until < o.until || l.until == o.until && l.serial < o.serial
}

// ErrPinned is a lease on more blocks than may be pinned at once, which is half of
// all. errors.Is(err, ErrPinned{}) matches any.
type ErrPinned struct{ Need, Pinned, Max int }

func (e ErrPinned) Error() string {
	return fmt.Sprintf("prefix: a lease of %d blocks, with %d pinned of at most %d; release leases or let them expire", e.Need, e.Pinned, e.Max)
}

// Is matches the same error and the zero value.
func (e ErrPinned) Is(target error) bool {
	t, ok := target.(ErrPinned)
	return ok && (t == e || t == ErrPinned{})
}

// Pin takes the full blocks of the longest known prefix of a query for so long.
// Its Match may be empty.
func (t *Tree) Pin(r Root, q Query, d time.Duration) (*Lease, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d <= 0 {
		return nil, ErrArgument{Op: "pin", Why: fmt.Sprintf("a time of %v: need more than 0", d)}
	}
	t.expire()
	m := t.match(r, q)
	l := &Lease{Match: m, blocks: m.append(nil)[:m.Blocks]}
	l.Match.Tokens, l.Match.Tail = m.Blocks*t.blockSize, 0
	if limit := t.alloc.Total() / 2; t.pinned+len(l.blocks) > limit {
		return nil, ErrPinned{Need: len(l.blocks), Pinned: t.pinned, Max: limit}
	}
	for i, b := range l.blocks {
		if err := t.retain(b); err != nil {
			_ = t.release(l.blocks[:i]) // taken a moment ago
			return nil, err
		}
	}
	t.pinned += len(l.blocks)
	t.clock++
	l.serial, l.until = t.clock, t.now().Add(d).UnixNano()
	push(&t.leases, l)
	return l, nil
}

// Unpin ends a lease before its time. ErrReleased when it has ended already.
func (t *Tree) Unpin(l *Lease) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if l == nil || l.ended {
		return ErrReleased
	}
	return t.end(l)
}

func (t *Tree) end(l *Lease) error {
	t.pinned -= len(l.blocks)
	err := t.release(l.blocks)
	l.blocks, l.ended = nil, true
	return err
}

// endLeases ends the leases whose time is over.
func (t *Tree) endLeases(now int64) {
	for len(t.leases) > 0 && t.leases[0].until <= now {
		if l := pop(&t.leases); !l.ended {
			_ = t.end(l) // it owns its blocks
		}
	}
}
