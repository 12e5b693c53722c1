//go:build unix

package disk

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// plants are what others, or an accident, may put in the place of a file, next to another user's file.
var plants = map[string]func(path, other string) error{
	"named pipe":    func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	"directory":     func(path, _ string) error { return os.Mkdir(path, 0o700) },
	"symbolic link": func(path, other string) error { return os.Symlink(other, path) },
	"hard link":     func(path, other string) error { return os.Link(other, path) },
	"socket": func(path, _ string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err == nil {
			l.SetUnlinkOnClose(false)
			err = l.Close()
		}
		return err
	},
	"device": func(path, _ string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|5) }, // reads zeros for ever
}

// refused checks that a call refuses a path soon, by name.
func refused(t *testing.T, path, what string, call func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		require.ErrorAs(t, err, new(tier.ErrConfig), what)
		require.ErrorContains(t, err, path, what)
		require.ErrorContains(t, err, what)
	case <-time.After(time.Minute):
		t.Fatalf("a %s hangs", what)
	}
}

// Anything but the tier's own file is refused in the place of each of its files: nothing hangs, and nothing is read, written or cut through it.
func TestPlantedFiles(t *testing.T) {
	for what, plant := range plants {
		for _, name := range []string{"lock", "meta.json", "table", "data"} {
			for _, fresh := range []bool{true, false} {
				base := t.TempDir()
				o, other := onDisk(filepath.Join(base, "d")), filepath.Join(base, "other")
				if !fresh {
					d, err := Open(o)
					require.NoError(t, err)
					require.NoError(t, d.Put(ctx, chainOf(1, 3)))
					require.NoError(t, d.Close())
				}
				require.NoError(t, os.WriteFile(other, []byte("somebody else's"), 0o600))
				path := filepath.Join(o.Dir, name)
				require.NoError(t, os.MkdirAll(o.Dir, 0o700))
				require.NoError(t, os.RemoveAll(path))
				if err := plant(path, other); what == "device" && err != nil {
					t.Log("no device here: ", err)
					continue
				} else {
					require.NoError(t, err)
				}
				refused(t, path, what, func() error { _, err := Open(o); return err })
				text, err := os.ReadFile(other)
				require.NoError(t, err)
				require.Equal(t, "somebody else's", string(text))
				if name == "lock" {
					refused(t, path, what, func() error { _, err := Measure(ctx, Options{Dir: o.Dir, Payload: 20_000, Floor: 1}); return err })
				}
			}
		}
	}
}

// Nor is anything but a directory taken for one.
func TestPlantedDirectory(t *testing.T) {
	for what, plant := range plants {
		if what == "directory" || what == "hard link" {
			continue
		}
		base := t.TempDir()
		dir, other := filepath.Join(base, "d"), filepath.Join(base, "other")
		require.NoError(t, os.Mkdir(other, 0o700))
		if plant(dir, other) != nil {
			continue // no device here
		}
		for _, dir := range []string{dir, dir + "/"} {
			refused(t, filepath.Clean(dir), what, func() error { return Prepare(dir) })
			refused(t, filepath.Clean(dir), what, func() error { _, err := Open(onDisk(dir)); return err })
			refused(t, filepath.Clean(dir), what, func() error { _, err := Measure(ctx, Options{Dir: dir, Payload: 20_000, Floor: 1}); return err })
		}
		left, err := os.ReadDir(other)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// A link that replaces a file while the tier is open ends it, even one that leads to the same file.
func TestLinkedWhileOpen(t *testing.T) {
	o := onDisk(filepath.Join(t.TempDir(), "d"))
	o.syncEvery = time.Millisecond
	d, err := Open(o)
	require.NoError(t, err)
	table, aside := filepath.Join(o.Dir, "table"), filepath.Join(filepath.Dir(o.Dir), "aside")
	require.NoError(t, os.Rename(table, aside))
	require.NoError(t, os.Symlink(aside, table))
	require.Eventually(t, func() bool {
		_, err := d.Has(ctx, nil)
		return err != nil
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, d.Close())
}
