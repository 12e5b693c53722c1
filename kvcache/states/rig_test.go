package states

import (
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("FERRUM_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

var _ Compressor = zstd.Compressor{}

var (
	ctx    = context.Background()
	secret = bytes.Repeat([]byte{7}, 32)
	llama  = Identity{Model: "abc", Engine: "llama.cpp", Version: "b5000", Settings: "f16", Salt: "a"}
)

// small are chunks of which tests can have many.
var small = sizes{128, 256, 1024}

// noise is bytes that nothing else has.
func noise(seed uint64, n int) []byte {
	out := make([]byte, n)
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return out
}

// tokens are the first of a text.
func tokens(seed uint64, n int) []uint32 {
	out := make([]uint32, n)
	random := rand.New(rand.NewPCG(seed, 2))
	for i := range out {
		out[i] = random.Uint32N(32000)
	}
	return out
}

// clock is a time that only tests move.
type clock struct {
	at   time.Time
	step time.Duration // with each look
}

func newClock() *clock                 { return &clock{time.Unix(1_800_000_000, 0), time.Second} }
func (c *clock) now() time.Time        { c.at = c.at.Add(c.step); return c.at }
func (c *clock) sleep(d time.Duration) { c.at = c.at.Add(d) }

// quick is the machine's disk, without waiting for it, and with room.
var quick = disk{
	createFile, writeFile, func(*os.File) error { return nil }, os.Rename, removeFile, func(string) error { return nil },
	func(string) (int64, int64, error) { return 1 << 50, 1 << 51, nil },
}

// testingT is a test, or a random history of rapid.
type testingT interface {
	require.TestingT
	Helper()
}

func open(t testingT, dir string, o Options) *Store {
	t.Helper()
	if o.disk == nil {
		o.disk = &quick
	}
	o.sizes, o.Network = &small, true
	s, err := Open(dir, o)
	require.NoError(t, err)
	return s
}

func put(t testingT, s *Store, k Key, parts ...[]byte) Info {
	t.Helper()
	info, err := s.Put(ctx, k, PutOptions{}, sources(parts)...)
	require.NoError(t, err)
	return info
}

var names = []string{"target", "draft", "checkpoint"}

func sources(parts [][]byte) (out []Source) {
	for i, b := range parts {
		out = append(out, Source{names[i], bytes.NewReader(b)})
	}
	return out
}

func requireState(t testingT, s *Store, id ID, want ...[]byte) {
	t.Helper()
	got, err := s.Get(ctx, id, nil)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i, p := range got {
		require.Equal(t, names[i], p.Name)
		require.True(t, bytes.Equal(want[i], p.Bytes), "part %s", p.Name)
	}
}

// requireTidy is that the files are those of the states and no others, are their owner's alone, and take what the store says.
func requireTidy(t testingT, s *Store) {
	t.Helper()
	uses, want, used := map[sum]int{}, map[string]bool{"lock": true, metaName: true}, int64(0)
	listed := 0
	for id, st := range s.states {
		want[filepath.Join("states", id.String())] = true
		used += st.size
		st.each(func(c chunk) { uses[c.Sum]++ })
		if s.index[st.Key.Identity].has(st.Key.Name, st.Key.Tokens) {
			listed++
		}
	}
	require.Equal(t, len(s.states), listed)
	live := map[*pack]int64{}
	require.Len(t, s.chunks, len(uses))
	for name, n := range uses {
		h := s.chunks[name]
		require.Equal(t, n, h.uses)
		live[h.pack] += h.cost()
	}
	require.Empty(t, s.dead)
	require.Len(t, s.packs, len(live))
	for p, n := range live {
		require.True(t, s.packs[p])
		require.Equal(t, n, p.live)
		require.Equal(t, s.gain(p) > 0, s.worn[p])
		want[filepath.Join("packs", filepath.Base(p.path))] = true
		used += p.size
	}
	for p := range s.worn {
		require.True(t, s.packs[p])
	}
	require.Equal(t, used, s.used)
	files := int64(0)
	require.NoError(t, fs.WalkDir(os.DirFS(s.dir), ".", func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		if runtime.GOOS != "windows" { // where modes say nothing
			require.Zero(t, info.Mode().Perm()&0o077, path)
		}
		if !e.IsDir() {
			require.True(t, want[filepath.FromSlash(path)], path)
			delete(want, filepath.FromSlash(path))
			if path != "lock" && path != metaName {
				files += onDisk(info.Size())
			}
		}
		return nil
	}))
	require.Empty(t, want)
	require.Equal(t, used, files)
}

func reopen(t testingT, s *Store, o Options) *Store {
	t.Helper()
	require.NoError(t, s.Close())
	return open(t, s.dir, o)
}

// variants are ways to store.
var variants = map[string]Options{
	"in the clear": {}, "compressed": {Compressor: zstd.Compressor{}}, "sealed": {Secret: secret},
	"sealed and compressed": {Secret: secret, Compressor: zstd.Compressor{}}, "durable": {Durable: true},
}

func forVariants(t *testing.T, test func(t *testing.T, o Options)) {
	for name, o := range variants {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

// flip changes a bit of a chunk where it is stored.
func flip(t testingT, s *Store, name sum) {
	t.Helper()
	s.mu.Lock()
	h := s.chunks[name]
	s.mu.Unlock()
	b, err := os.ReadFile(h.pack.path)
	require.NoError(t, err)
	b[h.at+int64(h.stored)-1] ^= 4
	require.NoError(t, os.WriteFile(h.pack.path, b, 0o600))
}
