package kvstore

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Wherever in a Commit or Reset the disk is full, or fails, the store is empty, the old snapshot is there for the next who opens it, no
// more and no less is on the disk, and the call works when there is room again.
func TestFullDisk(t *testing.T) {
	before, after := noise(1, 3000), append(noise(1, 2500), noise(2, 3000)...)
	for at := 1; ; at++ {
		f := &faults{on: quick}
		f.happen = func(path string, b []byte) error { return half(path, b, func() error { return errDisk }) }
		dir := openDir(t, t.TempDir()+"/d", f.disk())
		s := openStore(t, dir, "chat")
		commit(t, s, before)
		chunks := dir.Stats()
		prepare(t, s, after)
		f.done, f.at = 0, at
		err := s.Commit(ctx, len(after))
		if err == nil && f.done < at {
			require.Greater(t, at, 10)
			return
		}
		if err != nil { // else it was an old chunk that could not be removed
			require.ErrorIs(t, err, errDisk)
			requireContent(t, s, nil)
			requireTidy(t, dir)
			require.Equal(t, chunks.Bytes, dir.Stats().Bytes)
			if at%2 == 0 {
				require.NoError(t, s.Commit(ctx, len(after)))
				requireContent(t, s, after)
				before = after
			}
		}
		require.NoError(t, s.Close())
		require.NoError(t, dir.Close())
		want := before
		if err == nil {
			want = after
		}
		require.Equal(t, want, reopened(t, dir.path, "chat"), "change %d", at)
		before = noise(1, 3000)
	}
}

// A Reset that fails forgets in this process, and can be called again.
func TestResetFails(t *testing.T) {
	f := &faults{on: quick, happen: func(string, []byte) error { return errDisk }}
	dir := openDir(t, t.TempDir()+"/d", f.disk())
	s := openStore(t, dir, "chat")
	commit(t, s, noise(1, 1000))
	f.at = f.done + 1
	require.ErrorIs(t, s.Reset(ctx), errDisk)
	requireContent(t, s, nil)
	require.Equal(t, []string{"chat"}, dir.Names())
	require.NoError(t, s.Reset(ctx))
	require.Empty(t, dir.Names())
	requireTidy(t, dir)
}

// A context that ends between two chunks ends a call there, and the store is as after any other failure.
func TestCancelledBetweenChunks(t *testing.T) {
	f := &faults{on: quick}
	dir := openDir(t, t.TempDir()+"/d", f.disk())
	s := openStore(t, dir, "chat")
	content := noise(1, 5000)
	chunks := len(small.cuts(content))
	for at := 1; at <= chunks; at++ {
		going, cancel := context.WithCancel(ctx)
		f.done, f.at = 0, at
		f.happen = func(path string, b []byte) error {
			cancel()
			return os.WriteFile(path, b, 0o600)
		}
		prepare(t, s, content)
		written, want := dir.Stats().Written, 0
		for _, c := range small.cuts(content)[:at] {
			want += len(c)
		}
		require.ErrorIs(t, s.Commit(going, len(content)), context.Canceled)
		require.Equal(t, int64(want), dir.Stats().Written-written, "it went on")
		require.Zero(t, s.Len())
		require.Empty(t, dir.Names())
		requireTidy(t, dir)
	}
	f.at = 0
	require.NoError(t, s.Commit(ctx, len(content)))
	_, err := s.Bytes(&ending{Context: ctx, left: 3})
	require.ErrorIs(t, err, context.Canceled)
	requireContent(t, s, content)
}

// ending is a context that is asked some times before it ends.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}
