package states

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
)

// files is all that a directory has, by name.
func allFiles(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var b []byte
			b, err = os.ReadFile(filepath.Join(dir, path))
			out[path] = string(b)
		}
		return err
	}))
	return out
}

// A directory is looked into whether somebody has it open or not, and is as it was. Damage is reported, and nothing is given up.
func TestLook(t *testing.T) {
	forVariants(t, func(t *testing.T, o Options) {
		dir := t.TempDir() + "/d"
		s := open(t, dir, o)
		first := put(t, s, numbered(1), noise(1, 5000))
		second := put(t, s, numbered(2), noise(1, 5000), noise(2, 3000))
		o.sizes = &small
		got, err := Look(ctx, dir, o, true)
		require.NoError(t, err)
		list, err := s.List()
		require.NoError(t, err)
		require.Len(t, got.States, 2)
		for i := range list {
			require.Equal(t, list[i].ID, got.States[i].ID)
			require.Equal(t, list[i].Key, got.States[i].Key)
			require.Equal(t, list[i].Parts, got.States[i].Parts)
			require.Equal(t, list[i].Used.Unix(), got.States[i].Used.Unix())
		}
		require.True(t, got.InUse)
		require.Equal(t, 2, got.Version)
		require.Equal(t, o.Secret != nil, got.Sealed)
		require.Equal(t, int64(13_000), got.Content)
		require.Equal(t, int64(8000), got.Unique)
		require.Empty(t, got.Damaged)
		require.GreaterOrEqual(t, got.Bytes, s.Stats().Bytes)
		one := s.states[second.ID].chunks[1][0].Sum
		path := s.chunks[one].pack.path
		flip(t, s, one)
		require.NoError(t, s.Close())

		require.NoError(t, os.WriteFile(path+".7.new", []byte("unfinished"), 0o600))
		before := allFiles(t, dir)
		got, err = Look(ctx, dir, o, false)
		require.NoError(t, err)
		require.False(t, got.InUse)
		require.Empty(t, got.Damaged)
		for range 2 {
			got, err = Look(ctx, dir, o, true)
			require.NoError(t, err)
			require.Len(t, got.States, 2)
			require.Len(t, got.Damaged, 1)
			require.Equal(t, second.ID, got.Damaged[0].ID)
			require.Equal(t, before, allFiles(t, dir))
		}
		require.NoError(t, os.Truncate(path, 100)) // an index that is torn, as if the pack were not there
		got, err = Look(ctx, dir, o, false)
		require.NoError(t, err)
		require.Len(t, got.States, 2)
		require.Len(t, got.Damaged, 1)
		require.Equal(t, second.ID, got.Damaged[0].ID)
		require.ErrorContains(t, got.Damaged[0], "is missing")
		require.NoError(t, os.WriteFile(s.manifestPath(first.ID), []byte("fkvm and other bytes"), 0o600))
		got, err = Look(ctx, dir, o, false)
		require.NoError(t, err)
		require.Len(t, got.States, 1)
		require.ElementsMatch(t, []ID{first.ID, second.ID}, []ID{got.Damaged[0].ID, got.Damaged[1].ID})

		if o.Secret == nil {
			_, err = Look(ctx, dir, Options{Secret: secret}, false)
			require.ErrorContains(t, err, "in the clear")
			return
		}
		got, err = Look(ctx, dir, Options{}, true)
		require.NoError(t, err)
		require.True(t, got.Sealed)
		require.Nil(t, got.States)
		_, err = Look(ctx, dir, Options{Secret: make([]byte, 32)}, true)
		require.ErrorContains(t, err, "another secret")
	})
}

// A directory that is named by a link has the same bytes.
func TestLookByLink(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir+"/d", Options{})
	put(t, s, numbered(1), noise(1, 5000))
	require.NoError(t, s.Close())
	if err := os.Symlink(dir+"/d", dir+"/link"); err != nil {
		t.Skip(err)
	}
	want, err := Look(ctx, dir+"/d", Options{sizes: &small}, true)
	require.NoError(t, err)
	got, err := Look(ctx, dir+"/link", Options{sizes: &small}, true)
	require.NoError(t, err)
	require.Positive(t, got.Bytes)
	require.Equal(t, want, got)
}

// What is no directory of states, or one of another version, is an error that says what to do.
func TestLookRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, meta := range []string{"", "{", `{"format":"FKVSLAB1","version":1}`, `{"format":"ferrumkv states","version":1}`, string(make([]byte, 5000))} {
		if meta != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, metaName), []byte(meta), 0o600))
		}
		_, err := Look(ctx, dir, Options{Compressor: zstd.Compressor{}}, true)
		require.ErrorIs(t, err, ErrConfig{})
		require.Regexp(t, "name (one|another)|choose another", err.Error())
	}
	_, err := Look(ctx, filepath.Join(dir, metaName), Options{}, false)
	require.ErrorIs(t, err, ErrConfig{}, "a file")
	_, err = Look(ctx, filepath.Join(dir, "none"), Options{}, false)
	require.ErrorIs(t, err, ErrConfig{})
	_, err = os.Stat(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Packs that are written, rewritten and removed while somebody looks, and states that are put anew and deleted, are no damage; what is damaged is told
// meanwhile.
func TestLookMeanwhile(t *testing.T) {
	dir := t.TempDir() + "/d"
	s := open(t, dir, Options{Secret: secret})
	hurt := put(t, s, numbered(0), noise(0, 5000)).ID
	put(t, s, numbered(3), noise(3, 5000))
	flip(t, s, s.states[hurt].chunks[0][0].Sum)
	text := noise(1, 20_000)
	ended := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(ended)
	all.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-ended:
				return
			default:
			}
			_, err := s.Put(ctx, numbered(1), PutOptions{}, sources([][]byte{text[:5000+1000*(n%3)], noise(uint64(n), 10_000)})...)
			if err == nil {
				_, err = s.Put(ctx, numbered(2), PutOptions{}, sources([][]byte{noise(uint64(n), 10_000)[:3000]})...)
			}
			if err = errors.Join(err, s.Delete(namer{secret}.id(ptr(numbered(1+n%2))))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 100 {
		got, err := Look(ctx, dir, Options{Secret: secret, sizes: &small}, true)
		require.NoError(t, err)
		require.Len(t, got.Damaged, 1)
		require.Equal(t, hurt, got.Damaged[0].ID)
		require.GreaterOrEqual(t, len(got.States), 2)
	}
}
