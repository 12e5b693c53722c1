package snapshot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file is there whole or as it was, for its owner alone, and nothing else is left.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.snap")
	say := func(what string, err error) error {
		return WriteFile(path, func(w io.Writer) error {
			_, _ = io.WriteString(w, what)
			return err
		})
	}
	broken := errors.New("broken")
	require.ErrorIs(t, say("half", broken), broken)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, os.WriteFile(path, []byte("older"), 0o644))
	require.ErrorIs(t, say("half", broken), broken)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "older", string(text))
	require.NoError(t, say("new", nil))
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	path = dir
	require.ErrorIs(t, say("x", nil), errNoFile)
	path = filepath.Join(dir, strings.Repeat("x", 255))
	require.NoError(t, say("a long name", nil))
	require.NoError(t, os.Remove(path))
	path = filepath.Join(dir, "y.snap")
	require.Panics(t, func() { _ = WriteFile(path, func(io.Writer) error { panic("defect") }) })
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "x.snap")
	if os.Symlink(filepath.Join(dir, "x.snap"), path) == nil {
		require.NoError(t, say("behind a link", nil))
		text, err = os.ReadFile(filepath.Join(dir, "x.snap"))
		require.NoError(t, err)
		require.Equal(t, "behind a link", string(text))
	}
	path = filepath.Join(dir, "none", "x")
	require.ErrorIs(t, say("x", nil), os.ErrNotExist)
}

// The file is synced before it is renamed, and its directory before WriteFile returns nil.
func TestWriteFileSyncs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories cannot be synced there")
	}
	was := syncFile
	defer func() { syncFile = was }()
	for at, fails := range map[error]error{nil: nil, syscall.EIO: syscall.EIO, syscall.EINVAL: nil} {
		path := filepath.Join(t.TempDir(), "x.snap")
		require.NoError(t, os.WriteFile(path, []byte("older"), 0o600))
		var seen []string
		syncFile = func(f *os.File) error {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			seen = append(seen, string(text))
			if f.Name() == filepath.Dir(path) {
				return at
			}
			return was(f)
		}
		err := WriteFile(path, func(w io.Writer) error {
			_, err := io.WriteString(w, "new")
			return err
		})
		require.ErrorIs(t, err, fails)
		require.Equal(t, []string{"older", "new"}, seen)
	}
}
