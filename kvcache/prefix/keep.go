package prefix

import (
	"fmt"
	"time"
)

// maxPriority is the largest Keep.Priority.
const maxPriority = 100

// Keep says how long blocks are worth keeping. Of several uses of a block the most
// generous counts, and it counts for the whole path that leads to it.
type Keep struct {
	// Priority, 0 to 100, is for the policy of that name: a cached block goes only
	// when there is none of a lower one.
	Priority int
	// TTL is how long a block without an owner is kept at most; 0: as long as there
	// is room.
	TTL time.Duration
}

func (k Keep) check(op string) error {
	switch {
	case k.Priority < 0 || k.Priority > maxPriority:
		return ErrArgument{Op: op, Why: fmt.Sprintf("priority %d: need 0 to %d", k.Priority, maxPriority)}
	case k.TTL < 0:
		return ErrArgument{Op: op, Why: fmt.Sprintf("a lifetime of %v: need 0 or more", k.TTL)}
	}
	return nil
}

// keep raises what is asked for an entry.
func (e *entry) keep(k Keep) {
	e.priority = max(e.priority, uint8(k.Priority))
	if k.TTL == 0 || e.ttl == 0 {
		e.ttl = 0
	} else {
		e.ttl = max(e.ttl, k.TTL)
	}
}

// expiry is the list of cached blocks whose time is limited: a heap by the moment
// when it is up. A block stands in it once at most, with a time that may be too
// early by now.
type expiry []deadline

type deadline struct {
	at int64 // nanoseconds since 1970
	id uint32
}

// limit notes that the time of a block which was just released is running.
func (t *Tree) limit(id uint32) {
	e := &t.entries[id]
	if e.ttl == 0 {
		e.expires = 0
		return
	}
	e.expires = t.now().UnixNano() + int64(e.ttl)
	if !e.timed {
		e.timed = true
		push(&t.expiry, deadline{e.expires, id})
	}
}

// expired reports whether an entry's time is up. now is 0 when no time is limited.
func (e *entry) expired(now int64) bool {
	return e.expires != 0 && e.state == queued && e.expires <= now
}

// moment is the time, 0 when nobody asks for it.
func (t *Tree) moment() int64 {
	if len(t.expiry) == 0 && len(t.leases) == 0 {
		return 0
	}
	return t.now().UnixNano()
}

// expire drops what has had its time: leases, and then cached blocks.
func (t *Tree) expire() {
	now := t.moment()
	if now == 0 {
		return
	}
	t.endLeases(now)
	for len(t.expiry) > 0 && t.expiry[0].at <= now {
		d := pop(&t.expiry)
		e := &t.entries[d.id]
		switch {
		case e.node == nil || e.state == held: // its time starts anew when it is released
			e.timed = false
		case e.expires == 0:
			e.timed = false
		case e.expires > now: // it was used since
			push(&t.expiry, deadline{e.expires, d.id})
		default: // what hangs below it was released before, for no longer
			e.timed = false
			t.forget(e.node, e.index())
		}
	}
}
