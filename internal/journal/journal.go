// Package journal hands log records to a program's handler beside the calls that log them. A handler may wait for a terminal or a network, for ever
// if it comes to that: a call that logs never waits for it, and may hold what others need.
package journal

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// room is how many records wait for a handler at most. Later ones are dropped, and counted.
const room = 256

// Behind returns a logger to l's handler whose calls do not wait. Those at level Info and above do not call the handler at all, so that they may be
// made with locks held. nil: the logger discards everything.
func Behind(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	if _, is := l.Handler().(*handler); is {
		return l
	}
	return slog.New(&handler{to: l.Handler(), queue: &queue{}})
}

// Flush waits until the handler has what was logged, no longer than for a while.
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
	return level >= slog.LevelInfo || h.to.Enabled(ctx, level) // the former is asked for when the record's turn comes
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

// queue is records that wait. One goroutine hands them on, in their order, while there are some.
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

// hand gives a record to its handler. One that panics loses it, and ends nothing else.
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
