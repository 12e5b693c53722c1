package journal

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"
)

// debugging is whether a handler takes debug records, by what it said last. It is asked on a goroutine of its own, since it may wait for a lock that it
// holds while it writes.
type debugging struct {
	to    slog.Handler
	begin time.Time
	takes atomic.Bool
	due   atomic.Int64 // when it is asked again, in nanoseconds after begin; never while it has not answered
}

const (
	askEvery = time.Second // so long a changed level may go unnoticed
	askFirst = time.Second // so long a new logger waits for the first answer
)

func newDebugging(to slog.Handler) *debugging {
	d := &debugging{to: to, begin: time.Now()}
	d.due.Store(math.MaxInt64)
	answered := make(chan struct{})
	go d.ask(answered)
	late := time.NewTimer(askFirst)
	defer late.Stop()
	select {
	case <-answered:
	case <-late.C:
	}
	return d
}

func (d *debugging) enabled() bool {
	if at := d.due.Load(); int64(time.Since(d.begin)) >= at && d.due.CompareAndSwap(at, math.MaxInt64) {
		go d.ask(nil)
	}
	return d.takes.Load()
}

// ask asks the handler; answered, if any, is closed then. One that panics takes none.
func (d *debugging) ask(answered chan<- struct{}) {
	takes := false
	defer func() {
		_ = recover()
		d.takes.Store(takes)
		d.due.Store(int64(time.Since(d.begin) + askEvery))
		if answered != nil {
			close(answered)
		}
	}()
	takes = d.to.Enabled(context.Background(), slog.LevelDebug)
}
