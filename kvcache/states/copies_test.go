// Two stores in two directories, over one tier.

package states

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	disktier "github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
)

// What one store has put, another one in another directory finds over the tier: by its key, by the longest beginning, and as a whole; and then it
// is its own. A store with another secret, or none, does not.
func TestCopies(t *testing.T) {
	for name, o := range map[string]Options{"in the clear": {}, "sealed": {Secret: secret}, "compressed": variants["sealed and compressed"]} {
		t.Run(name, func(t *testing.T) {
			c := openShared(t)
			a, b := over(t, c, o), over(t, c, o)
			target, draft := noise(1, 50_000), noise(2, 300)
			k := long(700)
			k.Name = "chat"
			info := put(t, a, k, target, draft, nil)
			a.settled()
			require.Equal(t, uint64(1), a.Stats().Copied)

			got, err := b.Fetch(ctx, k)
			require.NoError(t, err)
			require.Equal(t, info.ID, got.ID)
			require.Equal(t, info.Parts, got.Parts)
			require.Equal(t, k, got.Key)
			require.Equal(t, uint64(1), b.Stats().Fetched)
			c.before = func(op string) { t.Error(op, "of what is here") }
			_, err = b.Fetch(ctx, k)
			require.NoError(t, err)
			requireState(t, b, info.ID, target, draft, nil)
			c.before = nil
			requireTidy(t, b)

			for _, find := range []func(*Store) (Info, int, error){
				func(s *Store) (Info, int, error) { return s.FetchNearest(ctx, llama, append(tokens(1, 700), 5, 6)) },
				func(s *Store) (Info, int, error) { return s.FetchWhole(ctx, llama, append(tokens(1, 700), 5, 6)) },
			} {
				s := over(t, c, o)
				got, n, err := find(s)
				require.NoError(t, err)
				require.Equal(t, info.ID, got.ID)
				require.Equal(t, 700, n)
				requireState(t, s, info.ID, target, draft, nil)
				requireTidy(t, s)
			}
			other := slices.Clone(secret)
			other[0]++
			for _, o := range []Options{{Secret: other}, {Secret: map[bool][]byte{true: secret}[o.Secret == nil]}} {
				s := over(t, c, o)
				_, err := s.Fetch(ctx, k)
				require.Equal(t, ErrMiss{}, err)
				_, _, err = s.FetchNearest(ctx, llama, k.Tokens)
				require.Equal(t, ErrMiss{}, err)
			}
			s := over(t, c, o)
			for _, i := range []Identity{{}, {Model: "abc", Engine: "llama.cpp", Version: "b5001", Settings: "f16", Salt: "a"}} {
				_, _, err := s.FetchNearest(ctx, i, k.Tokens)
				require.Equal(t, ErrMiss{}, err)
				_, err = s.Fetch(ctx, Key{Identity: i, Name: k.Name, Tokens: k.Tokens})
				require.Equal(t, ErrMiss{}, err)
			}
			require.NoError(t, s.Close())
			_, err = s.Fetch(ctx, k)
			require.ErrorIs(t, err, ErrClosed)
			_, _, err = s.FetchWhole(ctx, llama, k.Tokens)
			require.ErrorIs(t, err, ErrClosed)
		})
	}
}

// A disk that machines share is a tier like any other, also for chunks of the usual sizes.
func TestCopiesOnDisk(t *testing.T) {
	d, err := disktier.Open(disktier.Options{Dir: t.TempDir() + "/tier", Payload: 65_576, Bytes: 64 << 20, Floor: 1, Network: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	var stores []*Store
	for range 2 {
		s, err := Open(t.TempDir()+"/d", Options{Bytes: 1 << 30, Secret: secret, Network: true, Copies: d, mover: steady, disk: &quick})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
	}
	content := noise(1, 3<<20)
	info := put(t, stores[0], long(1000), content)
	stores[0].settled()
	got, n, err := stores[1].FetchNearest(ctx, llama, tokens(1, 1100))
	require.NoError(t, err)
	require.Equal(t, 1000, n)
	require.Equal(t, info.ID, got.ID)
	requireState(t, stores[1], info.ID, content)
	_, err = stores[1].Clear("a")
	require.NoError(t, err)
	require.Zero(t, d.Stats().Blocks)
}

// Without a tier, what fetches finds what is here.
func TestNoCopies(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	_, _, err := s.FetchNearest(ctx, llama, tokens(1, 10))
	require.Equal(t, ErrMiss{}, err)
	info := put(t, s, long(10), noise(1, 100))
	got, n, err := s.FetchNearest(ctx, llama, tokens(1, 20))
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.Equal(t, info, got)
	_, err = s.Fetch(ctx, long(11))
	require.Equal(t, ErrMiss{}, err)
}

// Of the turns of several conversations the one is found that saves most, whether it is here or a copy; chunks that are here are not read from
// the tier; what the turns have in common is in the tier once.
func TestCopiesOfTurns(t *testing.T) {
	c := openShared(t)
	a := over(t, c, Options{})
	text := noise(1, 100_000)
	content := func(n int) []byte { return text[:20*n] }
	for _, n := range []int{20, 300, 600, 1000} {
		put(t, a, long(n), content(n))
		a.settled()
	}
	require.Less(t, c.Stats().Bytes, int64(45_000), "38,400 bytes of content, 20,000 of them different")
	side := Key{Identity: llama, Tokens: append(tokens(1, 512), tokens(2, 300)...)}
	sideInfo := put(t, a, side, noise(3, 5000))
	a.settled()

	for _, have := range []int{0, 20, 300} {
		b := over(t, c, Options{})
		if have > 0 {
			put(t, b, long(have), content(have))
			b.settled()
		}
		for _, q := range []struct {
			prompt      []uint32
			near, whole int
		}{
			{tokens(1, 10), 10, 0},
			{tokens(1, 100), max(20, min(have, 100)), 20},
			{tokens(1, 305), 305, 300},
			{side.Tokens[:800], 800, 300},
			{tokens(1, 1024), 1000, 1000},
			{tokens(9, 400), 0, 0},
		} {
			got, n, err := b.FetchWhole(ctx, llama, q.prompt)
			require.Equal(t, q.whole, n)
			require.Equal(t, q.whole == 0, err != nil)
			if err == nil {
				require.Len(t, got.Key.Tokens, n)
				requireState(t, b, got.ID, content(n))
			}
			got, n, err = b.FetchNearest(ctx, llama, q.prompt)
			if q.near == 0 {
				require.Equal(t, ErrMiss{}, err)
				continue
			}
			require.NoError(t, err)
			require.LessOrEqual(t, n, q.near)
			require.Greater(t, n, q.near-stride)
			require.GreaterOrEqual(t, n, max(q.whole, min(have, common(q.prompt, tokens(1, have)))))
			if got.ID == sideInfo.ID {
				requireState(t, b, got.ID, noise(3, 5000))
			} else {
				requireState(t, b, got.ID, content(len(got.Key.Tokens)))
			}
		}
		requireTidy(t, b)
	}
	b := over(t, c, Options{})
	put(t, b, Key{Identity: llama, Name: "other"}, content(900))
	b.settled()
	before := c.Stats().Read
	_, err := b.Fetch(ctx, long(1000))
	require.NoError(t, err)
	require.Less(t, c.Stats().Read-before, int64(12_000), "of 20,000 bytes 18,000 are here")
}

// Delete and Clear delete copies, also of states that are not here any more, and leave what others have.
func TestCopiesDeleted(t *testing.T) {
	for _, o := range []Options{{}, {Secret: secret}} {
		c := openShared(t)
		a := over(t, c, o)
		text := noise(1, 40_000)
		first, second := put(t, a, long(600), text[:30_000]), put(t, a, long(700), text)
		a.settled()
		require.NoError(t, a.Delete(first.ID))
		a.settled() // records name the second one again, which are not there while they are replaced
		b := over(t, c, o)
		_, err := b.Fetch(ctx, first.Key)
		require.Equal(t, ErrMiss{}, err)
		got, n, err := b.FetchNearest(ctx, llama, long(600).Tokens)
		require.NoError(t, err)
		require.Equal(t, 600, n)
		require.Equal(t, second.ID, got.ID)

		again := over(t, c, o)
		put(t, a, long(600), text[:30_000])
		put(t, a, long(700), text)
		a.settled()
		require.NoError(t, a.Delete(second.ID))
		a.settled()
		_, n, err = again.FetchNearest(ctx, llama, long(700).Tokens)
		require.NoError(t, err)
		require.Equal(t, 600, n, "the records name what is left")
		require.NoError(t, a.Delete(first.ID))
		put(t, a, long(700), text)
		a.settled()

		require.NoError(t, b.Delete(second.ID))
		require.ErrorIs(t, b.Delete(second.ID), ErrMiss{})
		require.NoError(t, a.Delete(second.ID), "it is here")
		require.Zero(t, c.Stats().Blocks)

		put(t, a, long(600), text[:30_000])
		a.settled()
		a.mu.Lock()
		require.NoError(t, a.forget(a.states[first.ID])) // as if for room
		a.mu.Unlock()
		require.NoError(t, a.Delete(first.ID))
		require.Zero(t, c.Stats().Blocks)

		his := long(300)
		his.Salt = "his"
		put(t, a, long(600), text[:30_000])
		put(t, a, his, text)
		a.settled()
		n, err = over(t, c, o).Clear("a")
		require.NoError(t, err)
		require.Zero(t, n)
		b = over(t, c, o)
		_, err = b.Fetch(ctx, long(600))
		require.Equal(t, ErrMiss{}, err)
		_, err = b.Fetch(ctx, his)
		require.NoError(t, err)
	}
}

// What one store has deleted does not come back by what another one, which has it still, deletes.
func TestCopiesDeletedElsewhere(t *testing.T) {
	c := openShared(t)
	a, b := over(t, c, Options{}), over(t, c, Options{})
	id := put(t, a, long(600), noise(1, 5000)).ID
	a.settled()
	_, err := b.Fetch(ctx, long(600))
	require.NoError(t, err)
	other := put(t, b, long(700), noise(2, 5000)).ID
	b.settled()
	require.NoError(t, a.Delete(id))
	require.NoError(t, b.Delete(other))
	b.settled()
	_, err = over(t, c, Options{}).Fetch(ctx, long(600))
	require.Equal(t, ErrMiss{}, err)
	_, _, err = over(t, c, Options{}).FetchNearest(ctx, llama, long(600).Tokens)
	require.Equal(t, ErrMiss{}, err)
	require.Zero(t, c.Stats().Blocks)
	requireState(t, b, id, noise(1, 5000))
}

// A lifetime goes on where the copy is, and a pin does not.
func TestCopiesExpire(t *testing.T) {
	c := openShared(t)
	clockA, clockB := newClock(), newClock()
	a, b := over(t, c, Options{now: clockA.now}), over(t, c, Options{now: clockB.now})
	info, err := a.Put(ctx, long(300), PutOptions{TTL: time.Hour, Pin: true}, sources([][]byte{noise(1, 5000)})...)
	require.NoError(t, err)
	a.settled()
	clockB.sleep(30 * time.Minute)
	got, err := b.Fetch(ctx, long(300))
	require.NoError(t, err)
	require.True(t, info.Expires.Equal(got.Expires))
	require.False(t, got.Pinned)
	clockB.sleep(31 * time.Minute)
	_, _, err = b.FetchNearest(ctx, llama, long(300).Tokens)
	require.Equal(t, ErrMiss{}, err)
}

// A state whose pack is rewritten, and the old one removed, while it is being copied is copied whole; and a turn that changes a state in some places
// sends little more than what is new.
func TestCopiesOfPacks(t *testing.T) {
	c := openShared(t)
	a := over(t, c, Options{})
	text := noise(1, 400_000)
	old := packsOf(a, put(t, a, numbered(2), text).ID)
	a.settled()
	require.NoError(t, c.Clear(ctx, tier.Key{}))
	inside, going := make(chan struct{}), make(chan struct{})
	var waits atomic.Bool
	c.before = func(op string) {
		if op == "put" && !waits.Swap(true) {
			close(inside)
			<-going
		}
	}
	info := put(t, a, long(600), text[:150_000]) // of the other's pack
	<-inside
	put(t, a, numbered(2), noise(2, 100))
	close(going)
	for p := range old {
		require.NoFileExists(t, p.path)
	}
	a.settled()
	require.Zero(t, a.Stats().NotCopied)
	requireTidy(t, a)
	b := over(t, c, Options{})
	_, err := b.Fetch(ctx, long(600))
	require.NoError(t, err)
	requireState(t, b, info.ID, text[:150_000])

	sent := 0
	c.puts = func(blocks []tier.Block) []tier.Block {
		for _, b := range blocks {
			sent += len(b.Bytes)
		}
		return blocks
	}
	next := text[:150_000]
	for i := range 4 {
		next = slices.Insert(slices.Clone(next), 30_000*(i+1), noise(uint64(i), 500)...)
	}
	put(t, b, long(700), next)
	b.settled()
	require.Less(t, sent, 50_000, "of them 25,000 manifest and records")
	_, err = a.Fetch(ctx, long(700))
	require.NoError(t, err)
	requireState(t, a, b.names.id(ptr(long(700))), next)
}
