package kvstore

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

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

var _ session = (*Store)(nil)

// kronks is the factory that doc.go tells to hook in.
func kronks(d *Dir, name string) factory {
	open := d.Factory(name)
	return func(ctx context.Context) (session, error) { return open(ctx) }
}

func TestContract(t *testing.T) {
	dir := openDir(t, filepath.Join(t.TempDir(), "new"), machine)
	s, err := kronks(dir, "chat")(ctx)
	require.NoError(t, err)

	// A new store is empty.
	require.Zero(t, s.Len())
	require.Zero(t, s.Cap())
	b, err := s.Bytes(ctx)
	require.NoError(t, err)
	require.Nil(t, b)

	// Commit needs something prepared.
	require.ErrorIs(t, s.Commit(ctx, 0), backend.ErrArgument{})

	// Prepare gives just as many bytes, to write to. Nothing is committed until Commit succeeds.
	for _, size := range []int{10, 0, 5000, 100} {
		b, err = s.Prepare(ctx, size)
		require.NoError(t, err)
		require.Len(t, b, size)
		require.GreaterOrEqual(t, s.Cap(), size)
		require.Zero(t, s.Len())
	}
	copy(b, noise(1, 100))
	nothing, err := s.Bytes(ctx)
	require.NoError(t, err)
	require.Nil(t, nothing)

	// Commit refuses what was not prepared, and may be called again; it takes the first bytes.
	for _, n := range []int{-1, 101, math.MinInt, math.MaxInt} {
		require.ErrorIs(t, s.Commit(ctx, n), backend.ErrArgument{})
		require.Zero(t, s.Len())
	}
	require.NoError(t, s.Commit(ctx, 90))
	require.Equal(t, 90, s.Len())
	require.Zero(t, s.Cap(), "an idle store holds no memory")
	clear(b) // which is ours no more, and not the store's either

	// Bytes is what was committed, and remains the caller's.
	b, err = s.Bytes(ctx)
	require.NoError(t, err)
	require.Equal(t, noise(1, 100)[:90], b)

	// What cannot be prepared changes nothing.
	for _, size := range []int{-1, math.MinInt, math.MaxInt} {
		_, err = s.Prepare(ctx, size)
		require.ErrorIs(t, err, backend.ErrArgument{})
		require.Equal(t, 90, s.Len())
	}

	// Prepare takes away what was committed, and a Commit that fails does not bring it back.
	_, err = s.Prepare(ctx, 7)
	require.NoError(t, err)
	require.Zero(t, s.Len())
	require.Error(t, s.Commit(ctx, 8))
	require.Zero(t, s.Len())
	require.Equal(t, noise(1, 100)[:90], b)

	// Nothing can be committed, too.
	require.NoError(t, s.Commit(ctx, 0))
	require.Zero(t, s.Len())
	require.Empty(t, dir.Names())

	// Reset forgets, and the store goes on.
	commit(t, s.(*Store), noise(2, 3000))
	require.NoError(t, s.Reset(ctx))
	requireContent(t, s.(*Store), nil)
	require.Zero(t, dir.Stats().Chunks)
	commit(t, s.(*Store), noise(3, 3000))
	requireContent(t, s.(*Store), noise(3, 3000))
	requireTidy(t, dir)

	// After Close nothing works; what was committed is there for the next.
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Bytes(ctx)
	require.ErrorIs(t, err, backend.ErrClosed)
	_, err = s.Prepare(ctx, 1)
	require.ErrorIs(t, err, backend.ErrClosed)
	require.ErrorIs(t, s.Commit(ctx, 0), backend.ErrClosed)
	require.ErrorIs(t, s.Reset(ctx), backend.ErrClosed)
	require.Zero(t, s.Len())
	require.NoError(t, dir.Close())
	require.Equal(t, noise(3, 3000), reopened(t, dir.path, "chat"))
}

// A Reset leaves nothing of a conversation in memory that is written to next.
func TestResetClears(t *testing.T) {
	s := openStore(t, openDir(t, t.TempDir()+"/d", machine), "chat")
	b, err := s.Prepare(ctx, 100)
	require.NoError(t, err)
	copy(b, noise(1, 100))
	_, err = s.Prepare(ctx, 10) // in the same memory
	require.NoError(t, err)
	require.NoError(t, s.Reset(ctx))
	require.Equal(t, make([]byte, 100), b)
}
