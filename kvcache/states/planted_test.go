//go:build unix

package states

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pack that a backup has linked, or whose mode was changed, is refused by name, and nothing is given up for it.
func TestRefusedPack(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	info := put(t, s, numbered(1), noise(1, 200))
	path := s.chunks[s.states[info.ID].chunks[0][0].Sum].pack.path
	refused := func() {
		_, err := s.Get(ctx, info.ID, nil)
		require.ErrorIs(t, err, ErrConfig{})
		require.ErrorContains(t, err, path)
	}
	require.NoError(t, os.Link(path, path+".backup"))
	refused()
	require.NoError(t, os.Remove(path+".backup"))
	require.NoError(t, os.Chmod(path, 0o644))
	refused()
	require.NoError(t, os.Chmod(path, 0o600))
	requireState(t, s, info.ID, noise(1, 200))
}

// A pipe or a link in the place of a file is refused by name: it is neither waited for, nor followed, nor written through.
func TestPlanted(t *testing.T) {
	for what, plant := range map[string]func(path, other string) error{
		"named pipe":    func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"symbolic link": func(path, other string) error { return os.Symlink(other, path) },
		"hard link":     func(path, other string) error { return os.Link(other, path) },
	} {
		for _, name := range []string{"lock", metaName, "manifest", "pack"} {
			base := t.TempDir()
			s := open(t, base+"/d", Options{})
			info := put(t, s, numbered(1), noise(1, 200))
			path := filepath.Join(s.dir, name)
			switch name {
			case "manifest":
				path = s.manifestPath(info.ID)
			case "pack":
				path = s.chunks[s.states[info.ID].chunks[0][0].Sum].pack.path
			}
			other := filepath.Join(base, "other")
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(other, b, 0o600))
			require.NoError(t, os.Remove(path))
			require.NoError(t, plant(path, other))
			done := make(chan error, 1)
			go func() {
				if name == "pack" {
					_, err := s.Get(ctx, info.ID, nil)
					done <- err
					return
				}
				_ = s.Close()
				_, err := Open(s.dir, Options{disk: &quick, Network: true})
				done <- err
			}()
			select {
			case err := <-done:
				require.ErrorContains(t, err, what, name)
				require.ErrorContains(t, err, "remove it", name)
			case <-time.After(time.Minute):
				t.Fatalf("a %s in the place of %s hangs", what, name)
			}
			if name == "pack" {
				put(t, s, numbered(1), noise(1, 200))
				requireState(t, s, info.ID, noise(1, 200))
			}
			is, err := os.ReadFile(other)
			require.NoError(t, err)
			require.Equal(t, b, is)
		}
	}
}
