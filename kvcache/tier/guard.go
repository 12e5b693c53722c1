package tier

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// guard is a tier and what is known of its failures. The mover's lock guards it.
type guard struct {
	tier     Tier
	name     string
	failures int           // in a row
	pause    time.Duration // the last one
	until    time.Time     // no calls before
	trial    bool          // a call is in progress that decides whether the pause is over
	hung     int           // calls that hang
	late     [kinds]int    // calls that run longer than MoverOptions.Slow
	slow     [2]bool       // the last call took that long: the next one counts as late at once
	asking   int           // calls of Has
	stats    TierMoves
}

// open reports whether a call of a kind may be made now. The lock is held.
func (g *guard) open(k kind) bool {
	return g.hung == 0 && !g.trial && g.late[k] == 0 && g.asking < mostAsking && !time.Now().Before(g.until)
}

// mostAsking is how many calls of Has a tier gets at a time: each has a goroutine, which its caller may not wait for.
const mostAsking = 256

// allow reports whether the tier may be called now, and counts a refusal.
func (m *Mover) allow(g *guard, k kind) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !g.open(k) {
		g.stats.Refused++
		return false
	}
	g.trial = g.failures >= m.o.Failures
	return true
}

// Takes reports whether a tier would be called by a store now.
func (m *Mover) Takes() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.tiers, func(g *guard) bool { return g.open(store) })
}

// failed counts a failure of a call. The lock is held.
func (m *Mover) failed(g *guard, op string, err error) {
	g.failures++
	g.trial = false
	if g.failures < m.o.Failures {
		return
	}
	g.pause = min(max(2*g.pause, m.o.Pause), m.o.Longest)
	g.until = time.Now().Add(g.pause)
	g.stats.Pauses++
	m.paused(g, op, err)
}

// request is a call to make.
type request struct {
	op    string
	kind  kind
	limit int
	// Both run on another goroutine, at most once: when the call runs longer than MoverOptions.Slow, and when it hangs. onSlow may be nil.
	onSlow func()
	onHang func(error)
}

// watch is a call in progress.
type watch struct {
	over, hung, late bool // over or hung comes first
	timer            *time.Timer
}

// call calls a tier. A panic is an error. When the context has ended and the call goes on beyond the grace, it hangs: onHang
// runs, and call returns when the call does. fn returns how many of limit blocks it did.
func (m *Mover) call(ctx context.Context, g *guard, q request, fn func(context.Context) (int, error)) (n int, hung bool, err error) {
	inner, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	var w watch
	op := q.op
	late := m.watchFor(g, &w, &q)
	stop := context.AfterFunc(inner, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !w.over {
			w.timer = time.AfterFunc(m.o.Grace, func() { m.hangs(g, &w, op, func() { q.onHang(ErrHung{Name: g.name, Op: op}) }) })
		}
	})
	begin := time.Now()
	n, err = protect(inner, fn)
	took := time.Since(begin)
	stop()
	if late != nil {
		late.Stop()
	}

	if n, err = m.ended(ctx, inner, g, &q, &w, n, err, took); err != nil && !w.hung {
		m.failedCall(g, op, err)
	}
	return n, w.hung, err
}

// ended notes what came of a call that returned.
func (m *Mover) ended(ctx, inner context.Context, g *guard, q *request, w *watch, n int, err error, took time.Duration) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	op, limit := q.op, q.limit
	g.stats.Calls++
	g.stats.Took += took
	if w.late {
		g.late[q.kind]--
	}
	if q.kind != forgetting {
		g.slow[q.kind] = took >= m.o.Slow
	}
	if w.hung {
		g.hung--
		m.hung--
		m.changed.Broadcast()
		m.unstuck(g, op, took)
		return 0, ErrHung{Name: g.name, Op: op}
	}
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	var panicked ErrPanic
	switch {
	case errors.As(err, new(ErrCorrupt)) && 0 <= n && n <= limit:
		g.stats.Corrupt++
		m.wrong(g)
		m.failed(g, op, err)
	case n < 0 || n > limit:
		g.stats.Wrong++
		n, err = 0, ErrFailed{Name: g.name, Op: op, Err: errCount{n, limit}}
		m.failed(g, op, err)
	case err == nil:
		if g.failures >= m.o.Failures {
			m.resumed(g)
		}
		g.failures, g.pause, g.until, g.trial = 0, 0, time.Time{}, false
	case errors.As(err, &panicked):
		g.stats.Panics++
		m.failed(g, op, err)
	case ctx.Err() != nil:
		g.stats.Cancelled++
		g.trial = false
	case inner.Err() != nil:
		g.stats.Timeouts++
		m.failed(g, op, err)
	default:
		g.stats.Errors++
		m.failed(g, op, err)
	}
	return n, err
}

// errCount is a number of blocks that a call cannot have done.
type errCount struct{ n, of int }

func (e errCount) Error() string { return fmt.Sprintf("it returned %d of %d blocks", e.n, e.of) }

// watchFor marks a call that runs longer than MoverOptions.Slow: no other one of its kind is made until it returns, and its job
// holds nothing that others wait for. If the last call took that long, this one is marked at once.
func (m *Mover) watchFor(g *guard, w *watch, q *request) *time.Timer {
	mark := func() {
		m.mu.Lock()
		over := w.over || w.hung
		if !over {
			w.late = true
			g.late[q.kind]++
		}
		m.mu.Unlock()
		if !over && q.onSlow != nil {
			q.onSlow()
		}
	}
	m.mu.Lock()
	slow := q.kind != forgetting && g.slow[q.kind]
	m.mu.Unlock()
	if slow {
		mark()
		return nil
	}
	return time.AfterFunc(m.o.Slow, mark)
}

// hangs marks a call that goes on beyond its grace, unless it is over.
func (m *Mover) hangs(g *guard, w *watch, op string, onHang func()) {
	m.mu.Lock()
	if w.over {
		m.mu.Unlock()
		return
	}
	w.hung = true
	m.stuck(g, op)
	if g.hung == 0 { // calls that hang together are one failure
		m.failed(g, op, ErrHung{Name: g.name, Op: op})
	}
	g.hung++
	g.stats.Hung++
	m.hung++
	m.mu.Unlock()
	onHang()
	m.wake()
}

// protect turns a panic into an error.
func protect(ctx context.Context, fn func(context.Context) (int, error)) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, ErrPanic{Value: v, Stack: string(debug.Stack())}
		}
	}()
	return fn(ctx)
}
