// Package journal passes log records to a program's slog.Handler on a goroutine of its own. A handler can block, on a terminal or a network, and may
// never return: a call that logs does not wait for it, and so may hold what others need.
package journal

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// room is the most records that wait for a handler; further ones are dropped and counted.
const room = 256

// Async returns a logger to l's handler whose calls do not wait. A record at level Info or above does not call the handler at all, so it can be
// logged with a lock held. nil: the logger discards everything.
func Async(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	if _, is := l.Handler().(*handler); is {
		return l
	}
	return slog.New(&handler{to: l.Handler(), queue: &queue{}})
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
	queue *queue
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.to.Enabled(ctx, level) // the handler is asked when the record's turn comes
}

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.queue.add(entry{h.to, r.Clone()})
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.to.WithAttrs(attrs), h.queue}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.to.WithGroup(name), h.queue}
}

// entry is a record, and where it goes.
type entry struct {
	to     slog.Handler
	record slog.Record
}

// queue is records that wait. One goroutine passes them on, in order, while there are any.
type queue struct {
	mu      sync.Mutex
	entries []entry
	lost    int           // dropped since the last record
	running chan struct{} // closed when nothing waits any more; nil: nothing does
}

func (q *queue) add(e entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.entries) == room {
		q.lost++
		return
	}
	q.entries = append(q.entries, e)
	if q.running == nil {
		q.running = make(chan struct{})
		go q.run()
	}
}

func (q *queue) run() {
	for {
		q.mu.Lock()
		if len(q.entries) == 0 {
			close(q.running)
			q.running, q.entries = nil, nil
			q.mu.Unlock()
			return
		}
		e, lost := q.entries[0], q.lost
		q.entries, q.lost = q.entries[1:], 0
		q.mu.Unlock()
		if lost > 0 {
			r := slog.NewRecord(time.Now(), slog.LevelWarn, "kvcache: log records were dropped: the handler is too slow", 0)
			r.AddAttrs(slog.Int("records", lost))
			entry{e.to, r}.hand()
		}
		e.hand()
	}
}

// hand gives a record to its handler. A handler that panics loses the record, and the program goes on.
func (e entry) hand() {
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
