package kvstore

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// What begins alike is kept once, whoever commits it, until the last has given it up. What is inserted costs little more than itself.
func TestShared(t *testing.T) {
	dir := openDir(t, t.TempDir()+"/d", quick)
	a, b := openStore(t, dir, "a"), openStore(t, dir, "b")
	text := noise(1, 100_000)
	costs := func(s *Store, content []byte) int64 {
		before := dir.Stats().Written
		commit(t, s, content)
		requireContent(t, s, content)
		return dir.Stats().Written - before
	}
	require.Equal(t, int64(len(text)), costs(a, text))
	require.Zero(t, costs(a, text))
	require.Zero(t, costs(b, text))
	require.Equal(t, Stats{Names: 2, Chunks: len(small.cuts(text)), Bytes: 100_000, Written: 100_000}, dir.Stats())

	grown := append(text, noise(2, 5000)...)
	require.LessOrEqual(t, costs(a, grown), int64(5000+small.max))
	other := append(text, noise(3, 7000)...)
	require.LessOrEqual(t, costs(b, other), int64(7000+small.max))
	inserted := slices.Concat(grown[:50_000], noise(4, 100), grown[50_000:])
	require.LessOrEqual(t, costs(a, inserted), int64(100+4*small.max))

	require.NoError(t, a.Reset(ctx))
	requireContent(t, b, other)
	require.Equal(t, int64(len(other)), dir.Stats().Bytes)
	require.NoError(t, b.Reset(ctx))
	require.Zero(t, dir.Stats().Bytes)
	requireTidy(t, dir)
}

// Stores of a directory are used by as many goroutines, which give up chunks and write them again at the same time, on a disk that fails.
func TestTogether(t *testing.T) {
	var contents [][]byte
	for i := range uint64(4) {
		contents = append(contents, append(noise(1, 1500), noise(i, int(400*i))...))
	}
	var writes atomic.Int64
	dir := openDir(t, t.TempDir()+"/d", disk{remove: machine.remove, write: func(path string, b []byte) error {
		if writes.Add(1)%17 == 0 {
			return errDisk
		}
		return machine.write(path, b) // quick is not for two that write the same chunk
	}})
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			var has []byte
			for range 60 {
				s, err := dir.Open(ctx, strconv.Itoa(i))
				if err != nil || s.Len() != len(has) {
					t.Errorf("a store with %d bytes instead of %d: %v", s.Len(), len(has), err)
					return
				}
				switch random.IntN(4) {
				case 0:
					err, has = s.Reset(ctx), nil
				case 1:
				default:
					content := contents[random.IntN(len(contents))]
					prepare(t, s, content)
					if s.Commit(ctx, len(content)) == nil {
						has = content
					}
				}
				if b, e := s.Bytes(ctx); err != nil || e != nil || s.Len() > 0 && !slices.Equal(b, has) {
					t.Errorf("a store is not as it was committed: %v, %v", err, e)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	requireTidy(t, dir)
}

// What Open has not made says so.
func TestZero(t *testing.T) {
	var s Store
	_, err := s.Bytes(ctx)
	require.ErrorIs(t, err, backend.ErrClosed)
	_, err = s.Prepare(ctx, 1)
	require.ErrorIs(t, err, backend.ErrClosed)
	require.ErrorIs(t, s.Commit(ctx, 0), backend.ErrClosed)
	require.ErrorIs(t, s.Reset(ctx), backend.ErrClosed)
	require.NoError(t, s.Close())
	require.Zero(t, s.Len()+s.Cap())

	var d Dir
	_, err = d.Open(ctx, "chat")
	require.ErrorIs(t, err, backend.ErrClosed)
	_, err = d.Factory("chat")(ctx)
	require.ErrorIs(t, err, backend.ErrClosed)
	require.Empty(t, d.Names())
	require.Zero(t, d.Stats())
	require.NoError(t, d.Close())
}
