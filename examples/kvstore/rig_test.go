package kvstore

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("FERRUM_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

var ctx = context.Background()

// small are chunks of which tests can have many.
var small = sizes{64, 256, 1024}

// noise is bytes that nothing else has.
func noise(seed uint64, n int) []byte {
	out := make([]byte, n)
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return out
}

// testingT is a test, or a random history of rapid.
type testingT interface {
	require.TestingT
	Helper()
}

func openDir(t testingT, path string, on disk) *Dir {
	t.Helper()
	d, err := open(path, small, on)
	require.NoError(t, err)
	return d
}

func openStore(t testingT, d *Dir, name string) *Store {
	t.Helper()
	s, err := d.Open(ctx, name)
	require.NoError(t, err)
	return s
}

// prepare has content prepared, and more bytes behind it.
func prepare(t testingT, s *Store, content []byte) {
	t.Helper()
	b, err := s.Prepare(ctx, len(content)+3)
	require.NoError(t, err)
	require.Len(t, b, len(content)+3)
	copy(b, content)
	require.Zero(t, s.Len())
}

func commit(t testingT, s *Store, content []byte) {
	t.Helper()
	prepare(t, s, content)
	require.NoError(t, s.Commit(ctx, len(content)))
	require.Equal(t, len(content), s.Len())
}

func requireContent(t testingT, s *Store, want []byte) {
	t.Helper()
	require.Equal(t, len(want), s.Len())
	have, err := s.Bytes(ctx)
	require.NoError(t, err)
	require.Equal(t, string(want), string(have))
	require.Equal(t, len(want) == 0, have == nil)
}

// reopened is what a name has in a directory that is closed, as another process sees it.
func reopened(t testingT, path, name string) []byte {
	t.Helper()
	d := openDir(t, path, machine)
	s := openStore(t, d, name)
	b, err := s.Bytes(ctx)
	require.NoError(t, err)
	requireTidy(t, d)
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
	return b
}

// requireTidy is that the files are those of the lists and no others, with the rights of their owner alone, and that the directory knows them.
func requireTidy(t testingT, d *Dir) {
	t.Helper()
	uses := map[sum]int{}
	want := map[string]bool{"lock": true}
	for name, l := range d.lists {
		want[filepath.Join("lists", fileOf(name))] = true
		for _, c := range l.Chunks {
			uses[c.Sum]++
			want[filepath.Join("chunks", c.Sum.String()[:2], c.Sum.String())] = true
		}
	}
	require.Len(t, d.chunks, len(uses))
	for s, n := range uses {
		require.Equal(t, n, d.chunks[s].uses)
	}
	require.NoError(t, fs.WalkDir(os.DirFS(d.path), ".", func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		if runtime.GOOS != "windows" { // where modes say nothing
			require.Zero(t, info.Mode().Perm()&0o077, path)
		}
		if !e.IsDir() {
			require.True(t, want[filepath.FromSlash(path)], path)
			delete(want, filepath.FromSlash(path))
		}
		return nil
	}))
	require.Empty(t, want)
}

// chunkFiles are the files of chunks.
func chunkFiles(t *testing.T, path string) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(path, "chunks"), func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, p)
		}
		return err
	}))
	return out
}
