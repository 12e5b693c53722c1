package memory

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

func TestMain(m *testing.M) {
	testsize.Histories(100)
	os.Exit(m.Run())
}

var ctx = context.Background()

func open(t testing.TB, bytes int64) *Tier {
	in, err := Open(Options{Bytes: bytes})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, in.check())
		require.NoError(t, in.Close())
	})
	return in
}

// buffers is where the payloads of blocks are read into.
func buffers(blocks []tier.Block) (out []tier.Block) {
	for _, b := range blocks {
		out = append(out, tier.Block{Key: b.Key, Bytes: make([]byte, len(b.Bytes))})
	}
	return out
}

func keys(blocks []tier.Block) (out []tier.Key) {
	for _, b := range blocks {
		out = append(out, b.Key)
	}
	return out
}

// checked checks its books after the suite used it.
type checked struct {
	*Tier
	t *testing.T
}

func (c checked) Close() error {
	require.NoError(c.t, c.check())
	return c.Tier.Close()
}

func TestConformance(t *testing.T) {
	tiertest.Run(t, func(t *testing.T, o tiertest.Options) tier.Tier {
		in, err := Open(Options{Bytes: o.Bytes})
		require.NoError(t, err)
		return checked{in, t}
	})
}

func TestBudget(t *testing.T) {
	_, err := Open(Options{Name: "host"})
	require.ErrorAs(t, err, &tier.ErrConfig{})
	require.ErrorContains(t, err, "host: a budget of 0 bytes")
	_, err = Open(Options{Bytes: -1})
	require.ErrorAs(t, err, &tier.ErrConfig{})
	all := hostmemory.Physical()
	require.Equal(t, all/2, DefaultBytes(0))
	require.Equal(t, all/4, DefaultBytes(all-all/2))
	require.Zero(t, DefaultBytes(2*all))
	for _, bytes := range []int64{1, 63, 64, 65} {
		in := open(t, bytes)
		b := tiertest.Chain("budget", "a", 2, int(bytes))
		require.NoError(t, in.Put(ctx, b))
		n, err := in.Get(ctx, buffers(b))
		require.NoError(t, err)
		require.Equal(t, 1, n, "a budget for one block of %d bytes", bytes)
		require.Equal(t, int64(1), in.Stats().Declined, "its child would need its room")
	}
}

// The block used least recently goes; a put, a repeated put and a read are uses, Has is none.
func TestLeastRecentlyUsedGoes(t *testing.T) {
	in := open(t, 4*64)
	put := func(name string) {
		require.NoError(t, in.Put(ctx, tiertest.Chain("lru", name, 1, 64)))
	}
	there := func(names ...string) {
		t.Helper()
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			n, err := in.Has(ctx, keys(tiertest.Chain("lru", name, 1, 64)))
			require.NoError(t, err)
			want := 0
			for _, w := range names {
				if w == name {
					want = 1
				}
			}
			require.Equal(t, want, n, name)
		}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		put(name)
	}
	n, err := in.Get(ctx, buffers(tiertest.Chain("lru", "a", 1, 64)))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	put("b")
	put("e")
	there("a", "b", "d", "e")
	put("f")
	there("a", "b", "e", "f")
	put("g")
	there("b", "e", "f", "g")
	require.Equal(t, int64(3), in.Stats().Evicted)
	require.Equal(t, int64(2), in.Stats().NeverUsed, "a was read")
}

// Of blocks that one call used last, those that nobody read go first.
func TestNeverReadGoFirst(t *testing.T) {
	in := open(t, 4*64)
	var blocks []tier.Block
	for i := range 5 {
		blocks = append(blocks, tiertest.Chain("read", fmt.Sprint(i), 1, 64)...)
	}
	require.NoError(t, in.Put(ctx, blocks[:4]))
	for _, i := range []int{0, 1, 3} {
		_, err := in.Get(ctx, buffers(blocks[i:i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, in.Put(ctx, blocks[:4])) // the same use for all
	require.NoError(t, in.Put(ctx, blocks[4:]))
	for i, want := range []int{1, 1, 0, 1, 1} {
		n, err := in.Has(ctx, keys(blocks[i:i+1]))
		require.NoError(t, err)
		require.Equal(t, want, n, i)
	}
}

// Payloads of several sizes share the budget: what was used least recently goes, whatever its size, and memory moves
// from slabs of one size to those of another.
func TestSizesShareTheBudget(t *testing.T) {
	const budget = 64 << 10
	in := open(t, budget)
	sizes := []int{64, 1000, 4096, 20000}
	for i := range 400 {
		size := sizes[i/20%len(sizes)]
		b := tiertest.Chain("sizes", fmt.Sprint(i), 2, size)
		require.NoError(t, in.Put(ctx, b))
		dst := buffers(b)
		n, err := in.Get(ctx, dst)
		require.NoError(t, err)
		require.Equal(t, 2, n, "two blocks of %d bytes have room", size)
		for j := range b {
			require.Equal(t, b[j].Bytes, dst[j].Bytes)
		}
		require.LessOrEqual(t, in.store.taken, int64(budget))
		require.NoError(t, in.check())
		if size < 20000 && i%20 >= 10 {
			require.Greater(t, in.Stats().Blocks, int64(2), "more than necessary went")
		}
	}
}

// A bit that flips in memory makes a miss, once.
func TestCorruptPayloadsAreMisses(t *testing.T) {
	in := open(t, 1<<16)
	const size = 1541
	b := tiertest.Chain("corrupt", "a", 3, size)
	require.NoError(t, in.Put(ctx, b))
	for _, at := range []int{0, 1000, size - 1} {
		e := in.books.find(b[1].Key)
		e.at.bytes(size)[at] ^= 1
		dst := buffers(b)
		n, err := in.Get(ctx, dst)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, b[0].Bytes, dst[0].Bytes)
		n, err = in.Has(ctx, keys(b))
		require.NoError(t, err)
		require.Equal(t, 1, n, "it is forgotten")
		require.NoError(t, in.Put(ctx, b))
		n, err = in.Get(ctx, dst)
		require.NoError(t, err)
		require.Equal(t, 3, n)
	}
	require.Equal(t, int64(3), in.Stats().Corrupt)
}

// A child whose parent is itself, which no keys of this project have, can go as any other.
func TestOwnParent(t *testing.T) {
	in := open(t, 64)
	b := tiertest.Chain("own", "a", 2, 64)
	b[0].Parent = b[0].Key
	require.NoError(t, in.Put(ctx, b[:1]))
	b[1].Parent = tier.Key{}
	require.NoError(t, in.Put(ctx, b[1:]))
	n, err := in.Has(ctx, keys(b[1:]))
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// Put and Get of warm tiers leave no garbage, although each Put gives up others.
func TestNoGarbage(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools forget")
	}
	in := open(t, 16*4096)
	var chains [][]tier.Block
	var lists [][]tier.Block
	for i := range 12 {
		chains = append(chains, tiertest.Chain("garbage", fmt.Sprint(i), 4, 4000))
		lists = append(lists, buffers(chains[i]))
	}
	i := 0
	turn := func() {
		i++
		c := i % len(chains)
		if err := in.Put(ctx, chains[c]); err != nil {
			panic(err)
		}
		if n, err := in.Get(ctx, lists[c]); n != 4 || err != nil {
			panic("not there")
		}
	}
	for range 100 {
		turn()
	}
	runtime.GC()
	require.Zero(t, testing.AllocsPerRun(200, turn))
	require.Greater(t, in.Stats().Evicted, int64(500))
}

// A block that changed between its sum and the copy is declined, and counted.
func TestWrongSumsAreDeclined(t *testing.T) {
	in := open(t, 1<<16)
	b := tiertest.Chain("wrong", "a", 3, 1000)
	b[1].Bytes[7] ^= 1
	require.NoError(t, in.Put(ctx, b))
	n, err := in.Has(ctx, keys(b))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = in.Has(ctx, keys(b[2:]))
	require.NoError(t, err)
	require.Zero(t, n, "its child, of the same call")
	require.NoError(t, in.check())
	s := in.Stats()
	require.Equal(t, []int64{1, 2, 1, 1000}, []int64{s.Corrupt, s.Declined, s.Blocks, s.Written})
	b[1].Bytes[7] ^= 1
	require.NoError(t, in.Put(ctx, b))
	n, err = in.Get(ctx, buffers(b))
	require.NoError(t, err)
	require.Equal(t, 3, n)
}
