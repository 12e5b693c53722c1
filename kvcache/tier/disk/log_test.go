package disk

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/journal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// logged has a disk log to a text, without times and sizes.
func logged(o *Options) *bytes.Buffer {
	var text bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case "level", "msg", "calls", "cause":
			return a
		}
		return slog.Attr{}
	}}))
	return &text
}

// told is what was logged since the disk was opened.
func told(d *Tier, text *bytes.Buffer) string {
	journal.Flush(d.log, time.Minute)
	_, rest, _ := strings.Cut(text.String(), "a disk was opened\"\n")
	return rest
}

// That a disk has no room to grow is logged once, and that it has again.
func TestNoRoomIsLogged(t *testing.T) {
	o := options(newMemoryFS(), 20)
	text := logged(&o)
	o.Floor = 50_000
	sys := o.system.(*memoryFS)
	sys.size = 150_000
	d, _, now := opened(t, o)
	for n := range 60 {
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1+n, 0)}))
		now.pass(growMuch)
	}
	const no = `level=WARN msg="kvcache: a disk cannot grow to its capacity: its file system has no room above the floor, or refuses"` + "\n"
	require.Equal(t, no, told(d, text))
	sys.mu.Lock()
	sys.size = 1 << 30
	sys.mu.Unlock()
	for n := range 60 {
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(101+n, 0)}))
		now.pass(growMuch)
	}
	require.Equal(t, no+`level=INFO msg="kvcache: a disk grows again"`+"\n", told(d, text))
}

// That writes are delayed is logged once, and that they work again.
func TestFailuresAndRecoveryAreLogged(t *testing.T) {
	o := options(newMemoryFS(), 8)
	text := logged(&o)
	d, sys, now := opened(t, o)
	sys.breaks(failing("data", "write", syscall.ENOSPC, 0))
	for range 2 * patience {
		_ = d.Put(ctx, []tier.Block{blockOf(3, 0)})
		now.pass(lastWait)
	}
	failed := `level=WARN msg="kvcache: reads or writes of a disk failed several times in a row; further ones are delayed" calls=writes cause="no space left on device"` + "\n"
	require.Equal(t, failed, told(d, text))
	sys.breaks(nil)
	for range 2 {
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(3, 0)}))
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(4, 0)}))
	}
	require.Equal(t, failed+`level=INFO msg="kvcache: reads or writes of a disk work again" calls=writes`+"\n", told(d, text))
}
