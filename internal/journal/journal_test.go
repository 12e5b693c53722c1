package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// blocking is a handler that waits until open is closed.
type blocking struct {
	slog.Handler
	open chan struct{}
}

func (b blocking) Enabled(ctx context.Context, l slog.Level) bool {
	<-b.open
	return b.Handler.Enabled(ctx, l)
}

func (b blocking) Handle(ctx context.Context, r slog.Record) error {
	<-b.open
	return b.Handler.Handle(ctx, r)
}

func plain(to *bytes.Buffer, level slog.Level) slog.Handler {
	return slog.NewTextHandler(to, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

// Calls return while the handler waits, records keep their order, and those without room are counted.
func TestCallsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		open := make(chan struct{})
		l := Async(slog.New(blocking{plain(&text, slog.LevelInfo), open}))
		require.Same(t, l, Async(l))
		l.Info("first")
		synctest.Wait() // it is out of the queue
		for i := range room + 3 {
			l.With("a", 1).WithGroup("g").Info("later", "i", i)
		}
		begin := time.Now()
		Flush(l, time.Second)
		require.Equal(t, time.Second, time.Since(begin))
		require.Empty(t, text.String())
		close(open)
		Flush(l, time.Hour)
		require.Equal(t, time.Second, time.Since(begin))
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		require.Equal(t, "level=INFO msg=first", lines[0])
		require.Regexp(t, `^level=WARN msg="kvcache: log records were dropped: .*records=3`, lines[1])
		require.Len(t, lines, room+2)
		for i, line := range lines[2:] {
			require.Equal(t, fmt.Sprintf("level=INFO msg=later a=1 g.i=%d", i), line)
		}
	})
}

func TestLevels(t *testing.T) {
	var text bytes.Buffer
	l := Async(slog.New(plain(&text, slog.LevelWarn)))
	l.Info("not logged")
	l.Debug("not logged")
	require.False(t, l.Enabled(t.Context(), slog.LevelDebug))
	l.Warn("logged")
	Flush(l, time.Minute)
	require.Equal(t, "level=WARN msg=logged\n", text.String())

	silent := Async(nil)
	require.False(t, silent.Enabled(t.Context(), slog.LevelError))
	Flush(silent, 0)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		silent.LogAttrs(context.Background(), slog.LevelError, "nothing", slog.Int("a", 1000), slog.String("b", "c"))
		l.LogAttrs(context.Background(), slog.LevelDebug, "nothing", slog.Int("a", 1000), slog.String("b", "c"))
	}))
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool  { return true }
func (panicking) Handle(context.Context, slog.Record) error { panic("a handler's") }

func TestHandlersThatPanic(t *testing.T) {
	l := Async(slog.New(panicking{}))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { l.Error("lost") })
	}
	all.Wait()
	Flush(l, time.Minute)
}

// secret is an error whose text names a key.
type secret struct{}

func (secret) Error() string { return "GET 0badcafe: not found" }

func TestCause(t *testing.T) {
	require.Zero(t, Cause(nil))
	for want, err := range map[string]error{
		syscall.ENOSPC.Error():      fmt.Errorf("tier: %w", &fs.PathError{Op: "write", Path: "/0badcafe", Err: syscall.ENOSPC}),
		"context deadline exceeded": fmt.Errorf("0badcafe: %w", context.DeadlineExceeded),
		"journal.secret":            errors.Join(fmt.Errorf("0badcafe: %w", secret{}), errors.New("other")),
		"*errors.errorString":       errors.New("0badcafe"),
	} {
		require.Equal(t, slog.String("cause", want), Cause(err))
	}
}
