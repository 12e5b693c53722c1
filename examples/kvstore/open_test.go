package kvstore

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Stores of a factory are independent, also at the same time, and find again what they had.
func TestFactory(t *testing.T) {
	dir := openDir(t, t.TempDir()+"/d", machine)
	var stores []session
	for _, want := range []string{"chat", "chat/2", "chat/3"} {
		s, err := kronks(dir, "chat")(ctx)
		require.NoError(t, err)
		require.Equal(t, want, s.(*Store).name)
		stores = append(stores, s)
	}
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			for n := range 20 {
				commit(t, s.(*Store), noise(uint64(n), 2000+i))
				requireContent(t, s.(*Store), noise(uint64(n), 2000+i))
			}
		})
	}
	all.Wait()
	require.Equal(t, []string{"chat", "chat/2", "chat/3"}, dir.Names())
	requireTidy(t, dir)
	require.NoError(t, stores[1].Close())
	s, err := kronks(dir, "chat")(ctx)
	require.NoError(t, err)
	require.Equal(t, 2001, s.Len())
}

func TestOpenRefuses(t *testing.T) {
	path := t.TempDir() + "/d"
	dir := openDir(t, path, machine)
	_, err := Open(path)
	require.ErrorIs(t, err, ErrInUse{Dir: path})
	for _, name := range []string{"", "\xff"} {
		_, err = dir.Open(ctx, name)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	s := openStore(t, dir, "../../chat\x00")
	_, err = dir.Open(ctx, s.name)
	require.ErrorIs(t, err, ErrInUse{path, s.name})
	require.ErrorIs(t, dir.Close(), ErrInUse{path, s.name})
	commit(t, s, noise(1, 1000))
	requireTidy(t, dir)
	require.NoError(t, s.Close())
	require.NoError(t, dir.Close())
	require.NoError(t, dir.Close())
	_, err = dir.Open(ctx, "chat")
	require.ErrorIs(t, err, backend.ErrClosed)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(file)
	require.Error(t, err)
}
