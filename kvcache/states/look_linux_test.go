package states

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A directory on a file system that is read-only, such as a backup, is looked into.
func TestLookReadOnly(t *testing.T) {
	dir := t.TempDir() + "/d"
	s := open(t, dir, Options{})
	put(t, s, numbered(1), noise(1, 5000))
	require.NoError(t, s.Close())
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	got, err := Look(ctx, dir, Options{sizes: &small}, true)
	require.NoError(t, err)
	require.Len(t, got.States, 1)
	require.Empty(t, got.Damaged)
}
