package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
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
		require.False(t, l.Enabled(t.Context(), slog.LevelDebug), "it has not said so")
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
		require.Len(t, lines, room+2)
		require.Regexp(t, `^level=WARN msg="kvcache: log records were dropped: .*records=3`, lines[room+1], "where they would have been")
		for i, line := range lines[1 : room+1] {
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

// A handler that is slow with debug records still gets those that matter.
func TestDebugRecordsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		open := make(chan struct{})
		close(open)
		h := &blocking{plain(&text, slog.LevelDebug), open}
		l := Async(slog.New(h))
		h.open = make(chan struct{})
		for range room {
			l.Debug("detail")
			synctest.Wait() // the first one is out of the queue
		}
		l.Error("lost")
		close(h.open)
		Flush(l, time.Hour)
		require.Equal(t, 1+room/2, strings.Count(text.String(), "msg=detail\n"))
		require.Regexp(t, fmt.Sprintf("records=%d\nlevel=ERROR msg=lost\n$", room-1-room/2), text.String())
	})
}

// A changed level is noticed, by asking that nobody waits for.
func TestLevelsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		var level slog.LevelVar
		h := slog.NewTextHandler(&text, &slog.HandlerOptions{Level: &level})
		l := Async(slog.New(h))
		for _, want := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
			level.Set(want)
			time.Sleep(askEvery)
			l.Enabled(t.Context(), slog.LevelDebug)
			synctest.Wait()
			require.Equal(t, want == slog.LevelDebug, l.Enabled(t.Context(), slog.LevelDebug))
		}
	})
}

type exiting struct{ slog.Handler }

func (e exiting) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "exit" {
		runtime.Goexit()
	}
	return e.Handler.Handle(ctx, r)
}

// A handler that ends its goroutine loses one record.
func TestHandlersThatExit(t *testing.T) {
	var text bytes.Buffer
	l := Async(slog.New(exiting{plain(&text, slog.LevelInfo)}))
	l.Info("exit")
	l.Info("next")
	Flush(l, 10*time.Second)
	l.Info("last")
	Flush(l, 10*time.Second)
	require.Equal(t, "level=INFO msg=next\nlevel=INFO msg=last\n", text.String())
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(_ context.Context, l slog.Level) bool {
	if l < slog.LevelInfo {
		panic("a handler's")
	}
	return true
}
func (panicking) Handle(context.Context, slog.Record) error { panic("a handler's") }

func TestHandlersThatPanic(t *testing.T) {
	l := Async(slog.New(panicking{}))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { l.Error("lost"); l.Debug("lost") })
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
