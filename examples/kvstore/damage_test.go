package kvstore

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever becomes of a chunk, wrong bytes are not read. What has the chunk says so, the rest goes on, and who commits the same bytes
// again mends it for all.
func TestDamagedChunk(t *testing.T) {
	for what, damage := range map[string]func(path string, b []byte) error{
		"missing": func(path string, _ []byte) error { return os.Remove(path) },
		"shorter": func(path string, b []byte) error { return os.WriteFile(path, b[:len(b)-1], 0o600) },
		"longer":  func(path string, b []byte) error { return os.WriteFile(path, append(b, 0), 0o600) },
		"empty":   func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"flipped": func(path string, b []byte) error {
			b[len(b)/3] ^= 4
			return os.WriteFile(path, b, 0o600)
		},
	} {
		t.Run(what, func(t *testing.T) {
			path := t.TempDir() + "/d"
			content := noise(1, 1500)
			for number := range chunkCount(t, content) {
				dir := openDir(t, path, machine)
				a, b, c := openStore(t, dir, "a"), openStore(t, dir, "b"), openStore(t, dir, "c")
				commit(t, a, content)
				commit(t, b, content)
				commit(t, c, noise(2, 3000))
				file := dir.chunkPath(a.committed.Chunks[number].Sum)
				have, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NoError(t, damage(file, have))
				for _, s := range []*Store{a, b, a} {
					got, err := s.Bytes(ctx)
					require.ErrorAs(t, err, &ErrCorrupt{})
					require.Equal(t, s.name, err.(ErrCorrupt).Name)
					require.Nil(t, got)
					require.Equal(t, what == "missing", isMissing(err))
					require.Equal(t, len(content), s.Len())
				}
				requireContent(t, c, noise(2, 3000))
				commit(t, a, content)
				requireContent(t, b, content)
				require.NoError(t, b.Reset(ctx))
				requireContent(t, a, content)
				commit(t, b, content[:300])
				requireContent(t, b, content[:300])
				requireTidy(t, dir)
				for _, s := range []*Store{a, b, c} {
					require.NoError(t, s.Close())
				}
				require.NoError(t, dir.Close())
			}
		})
	}
}

func isMissing(err error) bool {
	return err.(ErrCorrupt).Err != nil && os.IsNotExist(err.(ErrCorrupt).Err)
}

func chunkCount(t *testing.T, content []byte) int {
	n := len(small.cuts(content))
	require.Greater(t, n, 1)
	return n
}

// A list that is damaged is its store's alone. As it may name any chunk, none is removed until it is replaced and the directory opened again.
func TestDamagedList(t *testing.T) {
	content := noise(1, 1000)
	list := len(mustEncode(t, content))
	for _, at := range []int{0, len(magic) + 5, len(magic) + 64, list / 2, list - 1, list} {
		path := t.TempDir() + "/d"
		dir := openDir(t, path, quick)
		a, b := openStore(t, dir, "a"), openStore(t, dir, "b")
		commit(t, a, content)
		commit(t, b, noise(2, 1000))
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		require.NoError(t, dir.Close())
		file, err := os.ReadFile(dir.listPath("a"))
		require.NoError(t, err)
		require.Len(t, file, list)
		if at < list {
			file[at] ^= 1
		} else {
			file = file[:list/2]
		}
		require.NoError(t, os.WriteFile(dir.listPath("a"), file, 0o600))

		chunks := len(chunkFiles(t, path))
		dir = openDir(t, path, quick)
		a, b = openStore(t, dir, "a"), openStore(t, dir, "b")
		require.Zero(t, a.Len())
		_, err = a.Bytes(ctx)
		require.ErrorAs(t, err, &ErrCorrupt{})
		requireContent(t, b, noise(2, 1000))
		require.NoError(t, b.Reset(ctx))
		require.Len(t, chunkFiles(t, path), chunks)
		if at == 0 || at == list-1 {
			require.NoError(t, a.Reset(ctx))
			requireContent(t, a, nil)
		} else {
			commit(t, a, content)
			requireContent(t, a, content)
		}
		want := a.Len()
		require.NoError(t, a.Close())
		a = openStore(t, dir, "a")
		requireContent(t, a, content[:want])
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		require.NoError(t, dir.Close())
		require.Len(t, reopened(t, path, "a"), want)
	}
}

func mustEncode(t *testing.T, content []byte) []byte {
	l := &list{Name: "a"}
	for _, c := range small.cuts(content) {
		l.Chunks = append(l.Chunks, chunk{sha256.Sum256(c), len(c)})
	}
	b, err := l.encode()
	require.NoError(t, err)
	return b
}

// The list of one name is not that of another, whose file it is in.
func TestListOfAnother(t *testing.T) {
	dir := openDir(t, t.TempDir()+"/d", quick)
	s := openStore(t, dir, "a")
	commit(t, s, noise(1, 1000))
	require.NoError(t, s.Close())
	require.NoError(t, dir.Close())
	require.NoError(t, os.Rename(dir.listPath("a"), dir.listPath("b")))
	dir = openDir(t, dir.path, quick)
	requireContent(t, openStore(t, dir, "a"), nil)
	_, err := openStore(t, dir, "b").Bytes(ctx)
	require.ErrorAs(t, err, &ErrCorrupt{})
}

// A list that cannot be read now may be read later: nothing is opened, and nothing removed.
func TestUnreadableList(t *testing.T) {
	path := t.TempDir() + "/d"
	dir := openDir(t, path, machine)
	s := openStore(t, dir, "chat")
	commit(t, s, noise(1, 1000))
	require.NoError(t, s.Close())
	require.NoError(t, dir.Close())
	require.NoError(t, os.Mkdir(dir.listPath("a folder"), 0o700)) // which no file can be read from
	_, err := open(path, small, machine)
	require.Error(t, err)
	require.NoError(t, os.Remove(dir.listPath("a folder")))
	require.Equal(t, noise(1, 1000), reopened(t, path, "chat"))
	_, err = os.Stat(dir.listPath("a folder"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
