package prefix

import (
	"fmt"
	"math"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// maxPriority is the largest RetentionHint.Priority.
const maxPriority = 100

// RetentionHint says how long blocks should be kept. When several sequences use a block the highest
// values count, and they also count for all blocks before it on the path.
type RetentionHint struct {
	// Priority, 0 to 100, is used by the policy Priority: a cached block is evicted only when there
	// is none of lower priority.
	Priority int
	// TTL is how long a block without an owner is kept at most; 0: until it is evicted.
	TTL time.Duration
}

// Check returns ErrArgument, for the call op, when a field is out of range.
func (k RetentionHint) Check(op string) error {
	switch {
	case k.Priority < 0 || k.Priority > maxPriority:
		return ErrArgument{Op: op, Why: fmt.Sprintf("priority %d: need 0 to %d", k.Priority, maxPriority)}
	case k.TTL < 0:
		return ErrArgument{Op: op, Why: fmt.Sprintf("a lifetime of %v: need 0 or more", k.TTL)}
	}
	return nil
}

// keep raises what is asked for an entry, and reports whether that was a change.
func (e *entry) keep(k RetentionHint) bool {
	priority, ttl := max(e.priority, uint8(k.Priority)), max(e.ttl, k.TTL)
	if k.TTL == 0 || e.ttl == 0 {
		ttl = 0
	}
	changed := priority != e.priority || ttl != e.ttl
	e.priority, e.ttl = priority, ttl
	return changed
}

// keepPath raises it for the path that leads to an entry, up to where as much was
// asked for before: nobody asks less for a block than for what is after it.
func (t *Tree) keepPath(e *entry, k RetentionHint) {
	for e != nil && e.keep(k) {
		_, e, _ = t.parent(e.node, e.index())
	}
}

// expiry is the blocks without an owner, cached or offloaded, that have a TTL, ordered by its end.
type expiry = intrusive.Heap[uint32]

func (t *Tree) newExpiry() expiry {
	return intrusive.NewHeap(func(a, b uint32) bool {
		x, y := t.entry(a).expires, t.entry(b).expires
		return x < y || x == y && a < b
	}, func(id uint32) *int32 { return &t.entry(id).place })
}

// limit starts the time of a block which was just released.
func (t *Tree) limit(id uint32) {
	e := &t.entries[id]
	e.expires = 0
	if e.ttl > 0 {
		e.expires = t.after(e.ttl)
		t.expiry.Put(id)
	}
}

// after is the moment after so long, or the last one there is.
func (t *Tree) after(d time.Duration) int64 {
	now := t.now().UnixNano()
	if at := now + int64(d); at > now {
		return at
	}
	return math.MaxInt64
}

// expired reports whether an entry's time is up. now is 0 when no time is limited.
func (e *entry) expired(now int64) bool {
	return e.expires != 0 && e.state != held && e.expires <= now
}

// moment is the time, 0 when nobody asks for it.
func (t *Tree) moment() int64 {
	if len(t.expiry.All()) == 0 && len(t.leases.All()) == 0 {
		return 0
	}
	return t.now().UnixNano()
}

// Expire ends leases whose time is over, and then drops cached blocks and offloaded entries whose
// TTL is over. Take, Insert, Evict and Pin do it, too; call it before reading the allocator's
// numbers.
func (t *Tree) Expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
}

// expire is Expire under the lock.
func (t *Tree) expire() {
	now := t.moment()
	if now == 0 {
		return
	}
	for len(t.leases.All()) > 0 && t.leases.Top().until <= now {
		_ = t.end(t.leases.Top()) // it owns its blocks
	}
	for len(t.expiry.All()) > 0 && t.entry(t.expiry.Top()).expires <= now {
		e := t.entry(t.expiry.Top())
		t.ghosts.add(e.hash)
		t.forget(e.node, e.index()) // what hangs below was released before, for no longer
	}
}
