package states

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
)

// Copies of a state of 64 MiB go into a tier that takes no time, and come from it.
func BenchmarkCopies(b *testing.B) {
	const size = 64 << 20
	c, err := memory.Open(memory.Options{Bytes: 1 << 30})
	require.NoError(b, err)
	defer c.Close()
	at := func() *Store {
		s, err := Open(b.TempDir()+"/d", Options{Bytes: 1 << 30, Floor: 1, Network: true, Copies: c})
		require.NoError(b, err)
		return s
	}
	from, to := at(), at()
	defer from.Close()
	defer to.Close()
	k, content := long(30_000), noise(1, size)
	info := put(b, from, k, content)
	from.settled()
	b.Run("copy out", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			b.StopTimer()
			require.NoError(b, c.Clear(ctx, [32]byte{}))
			b.StartTimer()
			from.copies.offer(info.ID)
			from.settled()
		}
	})
	b.Run("again", func(b *testing.B) { // nothing but what it is found by
		for b.Loop() {
			from.copies.offer(info.ID)
			from.settled()
		}
	})
	b.Run("fetch", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			_, n, err := to.FetchNearest(ctx, llama, k.Tokens)
			require.NoError(b, err)
			require.Equal(b, 30_000, n)
			b.StopTimer()
			to.mu.Lock()
			require.NoError(b, to.forget(to.states[info.ID]))
			to.mu.Unlock()
			to.clean()
			b.StartTimer()
		}
	})
	b.Run("miss", func(b *testing.B) {
		prompt := tokens(9, 30_000)
		for b.Loop() {
			_, _, err := to.FetchNearest(ctx, llama, prompt)
			require.ErrorIs(b, err, ErrMiss{})
		}
	})
}
