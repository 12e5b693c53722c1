package kronk

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

var (
	ctx      = context.Background()
	identity = states.Identity{Model: "weights", Engine: "kronk", Version: "1.33.1"}
)

// noise is bytes that nothing else has.
func noise(seed uint64, n int) []byte {
	out := make([]byte, n)
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return out
}

// session and factory are what kronk asks for, in the form that has contexts and errors. There each store is used by one goroutine at a time,
// and different stores of a factory by several.
type session interface {
	Len() int
	Cap() int
	Bytes(ctx context.Context) ([]byte, error)
	Prepare(ctx context.Context, size int) ([]byte, error)
	Commit(ctx context.Context, n int) error
	Reset(ctx context.Context) error
	Close() error
}

type factory func(ctx context.Context) (session, error)

var _ session = (*Session)(nil)

// kronks is the factory that doc.go tells to hook in.
func kronks(s *Sessions, name string) factory {
	open := s.Factory(name)
	return func(ctx context.Context) (session, error) { return open(ctx) }
}

func openStore(t *testing.T, dir string) *states.Store {
	t.Helper()
	s, err := states.Open(dir, states.Options{Bytes: 64 << 20, Floor: 1, Network: true})
	require.NoError(t, err)
	return s
}

func commit(t *testing.T, s session, content []byte) {
	t.Helper()
	b, err := s.Prepare(ctx, len(content)+3)
	require.NoError(t, err)
	require.Zero(t, s.Len())
	copy(b, content)
	require.NoError(t, s.Commit(ctx, len(content)))
	requireContent(t, s, content)
}

func requireContent(t *testing.T, s session, want []byte) {
	t.Helper()
	have, err := s.Bytes(ctx)
	require.NoError(t, err)
	require.Equal(t, string(want), string(have))
	require.Equal(t, len(want), s.Len())
	require.Equal(t, len(want) == 0, have == nil)
}

func TestContract(t *testing.T) {
	store := openStore(t, filepath.Join(t.TempDir(), "new"))
	s, err := kronks(New(store, identity), "chat")(ctx)
	require.NoError(t, err)

	// A new store is empty.
	require.Zero(t, s.Len())
	require.Zero(t, s.Cap())
	requireContent(t, s, nil)

	// Commit needs something prepared.
	require.Error(t, s.Commit(ctx, 0))

	// Prepare gives just as many bytes, to write to. Nothing is committed until Commit succeeds.
	var b []byte
	for _, size := range []int{10, 0, 5000, 100} {
		b, err = s.Prepare(ctx, size)
		require.NoError(t, err)
		require.Len(t, b, size)
		require.GreaterOrEqual(t, s.Cap(), size)
		requireContent(t, s, nil)
	}
	copy(b, noise(1, 100))

	// Commit refuses what was not prepared, and may be called again; it takes the first bytes.
	for _, n := range []int{-1, 101, math.MinInt, math.MaxInt} {
		require.Error(t, s.Commit(ctx, n))
		require.Zero(t, s.Len())
	}
	require.NoError(t, s.Commit(ctx, 90))
	require.Zero(t, s.Cap(), "an idle store holds no memory")
	clear(b) // which is ours no more, and not the store's either
	requireContent(t, s, noise(1, 100)[:90])

	// What cannot be prepared changes nothing.
	for _, size := range []int{-1, math.MinInt, math.MaxInt} {
		_, err = s.Prepare(ctx, size)
		require.Error(t, err)
		require.Equal(t, 90, s.Len())
	}

	// Prepare takes away what was committed, and a Commit that fails does not bring it back.
	_, err = s.Prepare(ctx, 7)
	require.NoError(t, err)
	require.Error(t, s.Commit(ctx, 8))
	require.Zero(t, s.Len())

	// Nothing can be committed, too. Reset forgets, also in memory, and the store goes on.
	require.NoError(t, s.Commit(ctx, 0))
	require.Zero(t, store.Stats().States)
	commit(t, s, noise(2, 3000))
	b, err = s.Prepare(ctx, 100)
	require.NoError(t, err)
	copy(b, noise(3, 100))
	require.NoError(t, s.Reset(ctx))
	require.Equal(t, make([]byte, 100), b)
	requireContent(t, s, nil)
	commit(t, s, noise(3, 3000))

	// After Close nothing works; what was committed is there for the next, and not for another model.
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Bytes(ctx)
	require.ErrorIs(t, err, states.ErrClosed)
	_, err = s.Prepare(ctx, 1)
	require.ErrorIs(t, err, states.ErrClosed)
	require.ErrorIs(t, s.Commit(ctx, 0), states.ErrClosed)
	require.ErrorIs(t, s.Reset(ctx), states.ErrClosed)
	require.Zero(t, s.Len())
	for model, want := range map[string][]byte{"weights": noise(3, 3000), "others": nil} {
		s, err := New(store, states.Identity{Model: model, Engine: "kronk", Version: "1.33.1"}).Open(ctx, "chat")
		require.NoError(t, err)
		requireContent(t, s, want)
	}
	require.NoError(t, store.Close())
}

// Stores of a factory are independent, also at the same time, and find again what they had.
func TestFactory(t *testing.T) {
	store := openStore(t, t.TempDir()+"/d")
	sessions := New(store, identity)
	var stores []session
	for _, want := range []string{"chat", "chat/2", "chat/3"} {
		s, err := kronks(sessions, "chat")(ctx)
		require.NoError(t, err)
		require.Equal(t, want, s.(*Session).key.Name)
		stores = append(stores, s)
	}
	_, err := sessions.Open(ctx, "chat")
	require.ErrorIs(t, err, ErrOpen{"chat"})
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			for n := range 20 {
				commit(t, s, noise(uint64(n), 2000+i))
			}
		})
	}
	all.Wait()
	require.NoError(t, stores[1].Close())
	s, err := kronks(sessions, "chat")(ctx)
	require.NoError(t, err)
	require.Equal(t, 2001, s.Len())
}

// A state that had to go, or that is damaged, is a session without one, and the damage is said once.
func TestLost(t *testing.T) {
	dir := t.TempDir() + "/d"
	store := openStore(t, dir)
	s, err := New(store, identity).Open(ctx, "chat")
	require.NoError(t, err)
	commit(t, s, noise(1, 3000))
	_, err = store.Clear("")
	require.NoError(t, err)
	requireContent(t, s, nil)
	commit(t, s, noise(1, 3000))
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(packs[0], 100))
	_, err = s.Bytes(ctx)
	require.ErrorIs(t, err, states.ErrDamaged{})
	requireContent(t, s, nil)
	commit(t, s, noise(1, 3000))
}
