package states

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tiny is a file system of its own with so many blocks.
func tiny(t *testing.T, blocks int) string {
	dir := t.TempDir()
	err := unix.Mount("none", dir, "tmpfs", 0, "mode=700,size="+strconv.Itoa(blocks*blockBytes))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skip("a file system is mounted by root alone: ", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// On a file system that is really full, and of which the store does not know it, as where others write at the same time, a call fails with what the
// system says, what was stored is there, and the call works when there is room again. Where the store can see it, it keeps to what is free.
func TestFullFileSystem(t *testing.T) {
	dir := tiny(t, 80)
	blind := machine
	blind.space = func(string) (int64, int64, error) { return math.MaxInt64 / 2, math.MaxInt64 / 2, nil }
	before, after := noise(1, 12*blockBytes), append(noise(1, 6*blockBytes), noise(2, 14*blockBytes)...)
	full := 0
	for left := 0; ; left++ {
		o := Options{disk: &blind, Bytes: 1 << 30}
		s := open(t, filepath.Join(dir, "d"), o)
		info := put(t, s, numbered(1), before)
		filler := filepath.Join(dir, "filler")
		free, _, err := machine.space(dir)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filler, make([]byte, free-int64(left)*blockBytes), 0o600))
		_, err = s.Put(ctx, numbered(1), PutOptions{}, sources([][]byte{after})...)
		if err == nil {
			requireState(t, s, info.ID, after)
			require.Greater(t, full, 15)
			require.NoError(t, s.Close())
			break
		}
		full++
		require.ErrorIs(t, err, unix.ENOSPC)
		requireState(t, s, info.ID, before)
		requireTidy(t, s)
		if left%2 == 0 { // in the next process
			s = reopen(t, s, o)
			requireState(t, s, info.ID, before)
		}
		require.NoError(t, os.Remove(filler))
		put(t, s, numbered(1), after)
		requireState(t, s, info.ID, after)
		requireTidy(t, s)
		require.NoError(t, s.Close())
		require.NoError(t, os.RemoveAll(s.dir))
	}

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "d")))
	require.NoError(t, os.Remove(filepath.Join(dir, "filler")))
	o := Options{disk: &machine, Floor: 10 * blockBytes, Bytes: 1 << 30}
	s := open(t, filepath.Join(dir, "d"), o)
	for n := range 20 {
		content := noise(uint64(n), 15*blockBytes)
		info, err := s.Put(ctx, numbered(n), PutOptions{}, Source{names[0], bytes.NewReader(content)})
		require.NoError(t, err)
		requireState(t, s, info.ID, content)
		free, _, err := machine.space(dir)
		require.NoError(t, err)
		require.GreaterOrEqual(t, free, o.Floor)
	}
	require.Positive(t, s.Stats().Evicted)
	requireTidy(t, s)
	require.NoError(t, s.Close())
}
