package tier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/journal"
)

// Defaults of MoverOptions.
const (
	DefaultMoverBytes   = 256 << 20
	DefaultMoverWorkers = 4
	DefaultSlow         = time.Second
	DefaultTimeout      = 10 * time.Second
	DefaultGrace        = time.Second
	DefaultFailures     = 3
	DefaultPause        = time.Second
	DefaultLongestPause = time.Minute
)

// MoverOptions adjust a Mover; the zero value has the defaults.
type MoverOptions struct {
	Bytes   int64 // payloads of jobs that wait or run, in bytes, of stores and of loads each
	Workers int   // jobs that run at once; one of them is kept free for loads, if there are several
	Promote bool  // what a load found in a lower tier is put into those above it

	// Checked is how many of the first tiers compare payloads with their Sum as they copy them, like those of packages memory and
	// disk. The mover does not check these again.
	Checked int

	// Slow is how long a call may hold what others wait for, a worker and the memory of its job. If it runs longer, no other call of its kind
	// is made to the tier until it returns, the worker goes on with other jobs, and Job.Late reports that the memory may be out for long.
	Slow     time.Duration
	Timeout  time.Duration // of a tier's call, if its context has no earlier end
	Grace    time.Duration // after the end of its context, until a call counts as hanging
	Failures int           // of calls in a row, until a tier is not called for a pause
	Pause    time.Duration // the first one; each one after a failed trial is twice as long
	Longest  time.Duration // pause

	// Observe receives each call that read payloads: the tier, how many bytes, and how long it took. It must not block.
	Observe func(tier int, bytes int64, took time.Duration)

	// Logger receives which tiers fail, hang, return wrong bytes, are not called for a while and are called again. The mover does not wait for
	// its handler. nil: nothing is logged.
	Logger *slog.Logger
}

// Mover moves blocks to tiers and back, beside the program. It holds the tiers in the order in which it asks them, the fastest
// first. They stay the caller's, who closes them after the mover. It is safe for concurrent use.
//
// A tier that fails, panics or hangs costs the jobs that used it, and nothing else: other jobs run on, each failure is
// counted, and after some in a row the tier is not called for a while. Other jobs wait for one that hangs no longer than
// MoverOptions.Slow, once; it keeps what it was lent until it returns, and then it is called again. A tier that returns a payload
// other than was stored under its key has failed, too: the payload is a miss, is not promoted, and is deleted from the tier.
type Mover struct {
	o     MoverOptions
	log   *slog.Logger
	tiers []*guard
	base  context.Context // of all that it does; ends with Close
	end   context.CancelFunc

	mu      sync.Mutex
	changed sync.Cond // jobs, hung or closed
	closed  bool
	jobs    int // goroutines of jobs, jobs that wait, and calls of Has, Delete and Clear that may still use something
	hung    int // those in a call that hangs
	lanes   [2]lane
	live    map[*job]struct{}
	tails   map[uint64]*job // the last job of each sequence that has some
	stats   MoverStats
}

// kind is what a job, in a lane of its own, or a call does.
type kind int

const (
	load kind = iota // Get and Has
	store
	forgetting // Delete and Clear, by no job
	kinds
)

// lane is the jobs of a kind.
type lane struct {
	queue   []*job // in order of arrival
	running int
	bytes   int64     // lent by the callers
	waiting []*waiter // for room
}

type waiter struct {
	need    int64
	granted chan struct{}
}

// NewMover returns a mover over tiers, the fastest first.
func NewMover(tiers []Tier, o MoverOptions) (*Mover, error) {
	if len(tiers) == 0 {
		return nil, ErrConfig{Name: "mover", What: "no tiers"}
	}
	if o.Bytes < 0 || o.Checked < 0 || o.Workers < 0 || o.Slow < 0 || o.Timeout < 0 || o.Grace < 0 || o.Failures < 0 || o.Pause < 0 || o.Longest < 0 {
		return nil, ErrConfig{Name: "mover", What: fmt.Sprintf("an option below zero: %+v", o)}
	}
	o.Bytes = cmp.Or(o.Bytes, DefaultMoverBytes)
	o.Workers = cmp.Or(o.Workers, DefaultMoverWorkers)
	o.Slow, o.Timeout, o.Grace = cmp.Or(o.Slow, DefaultSlow), cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Grace, DefaultGrace)
	o.Failures = cmp.Or(o.Failures, DefaultFailures)
	o.Pause, o.Longest = cmp.Or(o.Pause, DefaultPause), cmp.Or(o.Longest, DefaultLongestPause)
	m := &Mover{o: o, log: journal.Async(o.Logger), live: map[*job]struct{}{}, tails: map[uint64]*job{}}
	m.changed.L = &m.mu
	m.base, m.end = context.WithCancel(context.Background())
	for i, t := range tiers {
		if t == nil {
			return nil, ErrConfig{Name: "mover", What: fmt.Sprintf("tier %d is nil", i)}
		}
		info := t.Info()
		if slices.ContainsFunc(m.tiers, func(g *guard) bool { return g.name == info.Name }) {
			return nil, ErrConfig{Name: "mover", What: "two tiers with the name " + info.Name}
		}
		m.tiers = append(m.tiers, &guard{tier: t, name: info.Name, stats: TierMoves{Name: info.Name, Medium: info.Medium}})
	}
	return m, nil
}

// room takes need bytes of a lane, or says why not.
func (m *Mover) room(ctx context.Context, k kind, need int64, wait bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &m.lanes[k]
	switch free := m.o.Bytes - l.bytes; {
	case m.closed || m.base == nil:
		return ErrClosed{Name: "mover"}
	case need <= free && len(l.waiting) == 0:
		l.bytes += need
		return nil
	case !wait || need > m.o.Bytes:
		m.stats.Busy++
		return ErrBusy{Need: need, Free: free, Most: m.o.Bytes}
	}
	w := &waiter{need: need, granted: make(chan struct{})}
	l.waiting = append(l.waiting, w)
	m.mu.Unlock()
	var err error
	select {
	case <-w.granted:
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.base.Done():
		err = ErrClosed{Name: "mover"}
	}
	m.mu.Lock()
	if err == nil {
		return nil
	}
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else { // granted at the same time
		l.bytes -= need
	}
	m.grant(l)
	return err
}

// grant gives room to those who wait for it, in their order. The lock is held.
func (m *Mover) grant(l *lane) {
	for len(l.waiting) > 0 && l.waiting[0].need <= m.o.Bytes-l.bytes {
		l.bytes += l.waiting[0].need
		close(l.waiting[0].granted)
		l.waiting = l.waiting[1:]
	}
}

// Drain waits until no job is left, or ctx ends. It does not wait for calls that hang: then it returns ErrHung.
func (m *Mover) Drain(ctx context.Context) error {
	stop := context.AfterFunc(ctx, m.wake)
	defer stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.jobs > m.hung && ctx.Err() == nil {
		m.changed.Wait()
	}
	if m.jobs > 0 && ctx.Err() != nil {
		return ctx.Err()
	}
	return m.hanging()
}

// Settle waits until the jobs that were submitted before are over, promotions included, or ctx ends, whatever comes after them. Like Drain
// it does not wait for calls that hang.
func (m *Mover) Settle(ctx context.Context) error {
	m.mu.Lock()
	jobs := slices.Collect(maps.Keys(m.live))
	m.mu.Unlock()
	for _, j := range jobs {
		over := j.freed
		select {
		case <-j.freed:
		case <-j.stuck: // and so perhaps never freed
			over = j.told
		case <-ctx.Done():
		}
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hanging()
}

// hanging is ErrHung for each tier with a call that hangs. The lock is held.
func (m *Mover) hanging() (err error) {
	for _, g := range m.tiers {
		if g.hung > 0 {
			err = errors.Join(err, ErrHung{Name: g.name, Op: "a call"})
		}
	}
	return err
}

// wake has those who wait look again.
func (m *Mover) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed.Broadcast()
}

// Close ends all jobs as if their contexts had ended, and waits for them. A call that hangs has its grace, then Close leaves it
// behind and says so by ErrHung.
func (m *Mover) Close() error {
	if m.base == nil {
		return ErrClosed{Name: "mover"}
	}
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.jobs > m.hung {
		m.changed.Wait()
	}
	return m.hanging()
}

// MoverStats is what a mover does and did.
type MoverStats struct {
	Jobs     int   // that wait, run, or have a call that hangs; a store counts once for each tier that it is being put into
	InFlight int64 // bytes of payloads that callers lend

	Stores, Loads int64 // jobs that ended
	Cancelled     int64 // of those, by their contexts, Clear, Delete or Close
	Busy          int64 // jobs that found no room

	Tiers []TierMoves
}

// TierMoves is the part of a tier in MoverStats.
type TierMoves struct {
	Name   string
	Medium Medium

	Calls               int64
	Stored, Loaded      int64         // blocks that Put took, whether it kept them or not, and that Get returned
	StoredBytes         int64         // of those
	LoadedBytes         int64         //
	Took                time.Duration // all calls together
	Errors, Panics      int64         // calls that failed, by cause:
	Timeouts, Hung      int64         // longer than MoverOptions.Timeout; beyond the grace too, or after their context's end
	Wrong               int64         // counts that cannot be
	Corrupt             int64         // payloads that differ from what was stored
	Cancelled           int64         // calls whose context ended, no failures
	Refused             int64         // calls that were not made, in pauses
	Pauses              int64
	Paused              bool // now
	Hanging             int  // calls that hang now
	Late                int  // calls that run longer than MoverOptions.Slow now, those that hang included
	ConsecutiveFailures int
}

// Stats returns the counters.
func (m *Mover) Stats() MoverStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Jobs, s.InFlight = m.jobs, m.lanes[load].bytes+m.lanes[store].bytes
	for _, g := range m.tiers {
		t := g.stats
		t.Hanging, t.Late = g.hung, g.late[load]+g.late[store]+g.late[forgetting]
		t.ConsecutiveFailures, t.Paused = g.failures, g.hung > 0 || time.Now().Before(g.until)
		s.Tiers = append(s.Tiers, t)
	}
	return s
}
