//go:build unix

package kvstore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipe or a link in the place of a file is refused by name: it is neither waited for nor followed.
func TestPlanted(t *testing.T) {
	for _, name := range []string{"lock", "lists/x"} {
		for what, plant := range map[string]func(path string) error{
			"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"link": func(path string) error { return os.Symlink(os.DevNull, path) },
		} {
			dir := t.TempDir()
			d, err := Open(dir)
			require.NoError(t, err)
			require.NoError(t, d.Close())
			path := filepath.Join(dir, filepath.FromSlash(name))
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, plant(path))
			done := make(chan error, 1)
			go func() { _, err := Open(dir); done <- err }()
			select {
			case err := <-done:
				require.ErrorContains(t, err, path, what)
				require.ErrorContains(t, err, "remove it")
			case <-time.After(time.Minute):
				t.Fatalf("a %s in the place of %s hangs", what, name)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "chunk")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	require.ErrorContains(t, fill(path, make([]byte, 1)), "remove it")
}
