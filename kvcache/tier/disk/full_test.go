//go:build linux

package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// What lies in memory is not taken for a disk.
func TestMeasureMemory(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=64m,mode=0700"); err != nil {
		t.Skip("no file system can be mounted here: ", err)
	}
	defer func() { require.NoError(t, unix.Unmount(mount, unix.MNT_DETACH)) }()
	s, err := Measure(ctx, Options{Dir: mount, Payload: 20_000})
	require.NoError(t, err)
	require.False(t, s.Cold)
	require.Equal(t, mostMeasured, s.Blocks)
	s, err = Measure(ctx, Options{Dir: mount, Payload: 1 << 20})
	require.NoError(t, err)
	require.Less(t, s.Blocks, 62, "as far as there is room above the floor, of 128")
	require.Greater(t, s.Blocks, 40)
	_, err = Measure(ctx, Options{Dir: mount, Payload: 16 << 20})
	require.ErrorAs(t, err, new(tier.ErrConfig))
	require.ErrorContains(t, err, "no room for 8 blocks")
	left, err := os.ReadDir(mount)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A real file system that others fill: nothing fails but what cannot be written, what is found is right, and when there is room
// again it is used. Only root may mount one.
func TestFullFileSystem(t *testing.T) {
	const size = 1 << 20
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Skip("no file system can be mounted here: ", err)
	}
	defer func() { require.NoError(t, unix.Unmount(mount, unix.MNT_DETACH)) }()
	now := &clock{now: time.Unix(1e9, 0)}
	o := onDisk(filepath.Join(mount, "d"))
	o.Bytes, o.now = 4*size, now.time // of which the file system has room for a part
	d, err := Open(o)
	require.NoError(t, err)
	free := func() int64 {
		n, _, err := machine{}.Space(mount)
		require.NoError(t, err)
		return n
	}
	put := func(first int) {
		for n := range 200 {
			require.NoError(t, d.Put(ctx, []tier.Block{blockOf(first+n, 0)}))
		}
		require.Contains(t, found(t, d, first+200), first+199)
	}
	put(1)
	all := d.Stats()
	require.Less(t, free(), int64(8*page), "it is full but for what has no room")
	require.Greater(t, all.Blocks, int64(size/(2*page)*3/4))
	require.Zero(t, all.Failures)
	require.Zero(t, all.Declined)
	require.NoError(t, d.Close())

	require.NoError(t, os.WriteFile(filepath.Join(mount, "others"), make([]byte, free()), 0o600))
	require.Less(t, free(), int64(page))
	d, err = Open(o)
	require.NoError(t, err)
	require.NoError(t, d.Clear(ctx, tier.Key{}))
	require.NoError(t, os.WriteFile(filepath.Join(mount, "others"), make([]byte, size/2), 0o600))
	now.pass(time.Minute)
	put(300)
	require.Less(t, d.Stats().Blocks, all.Blocks*2/3)
	require.Zero(t, d.Stats().Failures)

	require.NoError(t, os.Remove(filepath.Join(mount, "others")))
	now.pass(time.Minute)
	put(600)
	require.GreaterOrEqual(t, d.Stats().Blocks, all.Blocks-1)
	require.NoError(t, d.Close())

	// With a floor, what others take from below it is given back to the file system.
	o.Floor = size / 4
	d, err = Open(o)
	require.NoError(t, err)
	require.GreaterOrEqual(t, free(), o.Floor)
	put(900)
	require.GreaterOrEqual(t, free(), o.Floor)
	require.NoError(t, d.Close())
	require.NoError(t, d.index.check())
}
