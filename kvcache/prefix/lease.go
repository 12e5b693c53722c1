package prefix

import (
	"fmt"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// Lease keeps a path from eviction for a limited time. It owns the path's blocks as a sequence
// does, and gives them back when its time is over.
type Lease struct {
	Match  Match
	blocks []block.Block
	until  int64 // nanoseconds since 1970
	serial uint64
	place  int32 // among the leases; 0: it has ended
}

// newLeases is a heap of leases by the end of their time.
func newLeases() intrusive.Heap[*Lease] {
	return intrusive.NewHeap(
		func(a, b *Lease) bool { return a.until < b.until || a.until == b.until && a.serial < b.serial },
		func(l *Lease) *int32 { return &l.place },
	)
}

// ErrPinned is a lease on more blocks than may be pinned at once, which is half of all blocks.
// errors.Is(err, ErrPinned{}) matches any.
type ErrPinned struct{ Need, Pinned, Max int }

func (e ErrPinned) Error() string {
	return fmt.Sprintf("prefix: a lease of %d blocks, with %d pinned of at most %d; release leases or let them expire", e.Need, e.Pinned, e.Max)
}

// Is matches the same error and the zero value.
func (e ErrPinned) Is(target error) bool {
	t, ok := target.(ErrPinned)
	return ok && (t == e || t == ErrPinned{})
}

// Pin leases the full resident blocks of the longest known prefix of a query for the time d. The
// lease's Match may be empty. ErrPinned when too many blocks would be pinned. block.ErrOutOfBlocks
// when what would be pinned is promised to others.
func (t *Tree) Pin(r Root, q Query, d time.Duration) (*Lease, error) {
	if err := t.made("pin"); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if d <= 0 {
		return nil, ErrArgument{Op: "pin", Why: fmt.Sprintf("a time of %v: need more than 0", d)}
	}
	t.expire()
	m := t.match(r, q)
	l := &Lease{blocks: m.append(nil)[:m.Blocks]}
	m.Tail = 0 // what the lease tells keeps no prompt and no node alive
	l.Match = Match{Tokens: m.Blocks * t.blockSize, Blocks: m.Blocks, Fidelity: m.fidelity(), reason: m.reason.Redacted()}
	if limit := t.alloc.Total() / 2; t.stats.Pinned+len(l.blocks) > limit {
		return nil, ErrPinned{Need: len(l.blocks), Pinned: t.stats.Pinned, Max: limit}
	}
	for i, b := range l.blocks {
		if err := t.retain(b); err != nil {
			_ = t.release(l.blocks[:i]) // taken a moment ago
			return nil, err
		}
	}
	t.stats.Pinned += len(l.blocks)
	t.clock++
	l.serial, l.until = t.clock, t.after(d)
	t.leases.Put(l)
	return l, nil
}

// Unpin ends a lease before its time. ErrLeaseEnded when it has ended already.
func (t *Tree) Unpin(l *Lease) error {
	if err := t.made("unpin"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if l == nil || !t.leases.Has(l) {
		return ErrLeaseEnded
	}
	return t.end(l)
}

func (t *Tree) end(l *Lease) error {
	t.leases.Remove(l)
	t.stats.Pinned -= len(l.blocks)
	err := t.release(l.blocks)
	l.blocks = nil
	return err
}

// Ended reports whether the lease owns nothing any more: its time was over, or Unpin ended it. The caller
// must hold the lock that guards the allocator.
func (l *Lease) Ended() bool { return l.place == 0 }

// Leased calls visit for every block of every lease: a block of two leases twice.
func (t *Tree) Leased(visit func(block.Block)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, l := range t.leases.All() {
		for _, b := range l.blocks {
			visit(b)
		}
	}
}
