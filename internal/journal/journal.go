// Package journal passes log records to a program's slog.Handler on a goroutine of its own. A handler can block, on a terminal or a network, and may
// never return: a call that logs does not wait for it, and so may hold what others need.
package journal

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// room is the most records that wait for a handler; further ones are dropped and counted. Debug records get half of it, so that others find some.
const room = 256

// Async returns a logger to l's handler whose calls never call the handler: they do not wait, and can be made with a lock held. nil: the logger discards
// everything.
func Async(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	if _, is := l.Handler().(*handler); is {
		return l
	}
	return slog.New(&handler{l.Handler(), newDebugging(l.Handler()), &queue{}})
}

// Flush waits until the handler has taken what was logged, at most for the time wait.
func Flush(l *slog.Logger, wait time.Duration) {
	if h, is := l.Handler().(*handler); is {
		select {
		case <-h.queue.calm():
		case <-time.After(wait):
		}
	}
}

// handler puts records into a queue.
type handler struct {
	to    slog.Handler
	debug *debugging
	queue *queue
}

// Enabled says what records may be worth making; the handler itself is asked when a record's turn comes.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.debug.enabled()
}

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.queue.add(entry{to: h.to, record: r.Clone()})
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.to.WithAttrs(attrs), h.debug, h.queue}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.to.WithGroup(name), h.debug, h.queue}
}

// entry is a record, and where it goes.
type entry struct {
	to      slog.Handler
	record  slog.Record
	dropped int // records that came after it and found no room
}

// queue is records that wait. One goroutine passes them on, in order, while there are any.
type queue struct {
	mu      sync.Mutex
	entries []entry
	running chan struct{} // closed when nothing waits any more; nil: nothing does
}

func (q *queue) add(e entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := room
	if e.record.Level < slog.LevelInfo {
		most = room / 2
	}
	if n := len(q.entries); n >= most {
		q.entries[n-1].dropped++
		return
	}
	q.entries = append(q.entries, e)
	if q.running == nil {
		q.running = make(chan struct{})
		go q.run()
	}
}

func (q *queue) run() {
	ended := false
	defer func() {
		if !ended { // a handler called runtime.Goexit, as testing.T.FailNow does
			go q.run()
		}
	}()
	for {
		q.mu.Lock()
		if len(q.entries) == 0 {
			close(q.running)
			q.running, q.entries, ended = nil, nil, true
			q.mu.Unlock()
			return
		}
		e := q.entries[0]
		q.entries[0] = entry{}
		q.entries = q.entries[1:]
		q.mu.Unlock()
		e.pass()
		if e.dropped > 0 {
			r := slog.NewRecord(time.Now(), slog.LevelWarn, "kvcache: log records were dropped: the handler is too slow", 0)
			r.AddAttrs(slog.Int("records", e.dropped))
			entry{to: e.to, record: r}.pass()
		}
	}
}

// pass gives a record to its handler. A handler that panics loses the record, and the program goes on.
func (e entry) pass() {
	defer func() { _ = recover() }()
	if e.to.Enabled(context.Background(), e.record.Level) {
		_ = e.to.Handle(context.Background(), e.record)
	}
}

// calm is closed when nothing waits.
func (q *queue) calm() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return q.running
}
