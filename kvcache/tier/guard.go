package tier

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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
	stats    TierMoves
}

// allow says whether the tier may be called now.
func (m *Mover) allow(g *guard) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g.hung > 0 || g.trial || time.Now().Before(g.until) {
		g.stats.Refused++
		return false
	}
	g.trial = g.failures >= m.o.Failures
	return true
}

// failed counts a failure. The lock is held.
func (m *Mover) failed(g *guard) {
	g.failures++
	g.trial = false
	if g.failures < m.o.Failures {
		return
	}
	g.pause = min(max(2*g.pause, m.o.Pause), m.o.Longest)
	g.until = time.Now().Add(g.pause)
	g.stats.Pauses++
}

// watch is a call in progress.
type watch struct {
	over, hung bool // one of them comes first
	timer      *time.Timer
}

// call calls a tier. A panic is an error. When the context has ended and the call goes on beyond the grace, it hangs: onHang
// runs, on another goroutine, and when the call returns at last, call says so. fn returns how many of limit blocks it did.
func (m *Mover) call(ctx context.Context, g *guard, op string, limit int, onHang func(error), fn func(context.Context) (int, error)) (n int, hung bool, err error) {
	inner, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	var w watch
	stop := context.AfterFunc(inner, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !w.over {
			w.timer = time.AfterFunc(m.o.Grace, func() { m.hangs(g, &w, func() { onHang(ErrHung{Name: g.name, Op: op}) }) })
		}
	})
	begin := time.Now()
	n, err = protect(inner, fn)
	took := time.Since(begin)
	stop()

	m.mu.Lock()
	defer m.mu.Unlock()
	g.stats.Calls++
	g.stats.Took += took
	if w.hung {
		g.hung--
		m.hung--
		m.changed.Broadcast()
		return 0, true, ErrHung{Name: g.name, Op: op}
	}
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	var panicked ErrPanic
	switch {
	case errors.As(err, new(ErrCorrupt)) && 0 <= n && n <= limit:
		g.stats.Corrupt++
		m.failed(g)
	case n < 0 || n > limit:
		g.stats.Wrong++
		m.failed(g)
		n, err = 0, ErrFailed{Name: g.name, Op: op, Err: fmt.Errorf("it says %d of %d blocks", n, limit)}
	case err == nil:
		g.failures, g.pause, g.until, g.trial = 0, 0, time.Time{}, false
	case errors.As(err, &panicked):
		g.stats.Panics++
		m.failed(g)
	case ctx.Err() != nil:
		g.stats.Cancelled++
		g.trial = false
	case inner.Err() != nil:
		g.stats.Timeouts++
		m.failed(g)
	default:
		g.stats.Errors++
		m.failed(g)
	}
	return n, false, err
}

// hangs marks a call that goes on beyond its grace, unless it is over.
func (m *Mover) hangs(g *guard, w *watch, onHang func()) {
	m.mu.Lock()
	if w.over {
		m.mu.Unlock()
		return
	}
	w.hung = true
	if g.hung == 0 { // calls that hang together are one failure
		m.failed(g)
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
