package prefix

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two tenants with equal tokens see each other neither in hits nor in counters.
func TestTenantsAreBlind(t *testing.T) {
	run := func(neighbour bool) (out []Stats) {
		r := newRig(t, 64, Config{BlockSize: 2})
		mine, theirs := salted("mine"), salted("theirs")
		step := func() { out = append(out, r.tree.SaltStats(mine)) }
		other := func(tokens []uint32) {
			if neighbour {
				r.cache(theirs, tokens)
				blocks, _ := r.take(theirs, tokens)
				r.release(blocks)
			}
		}
		other(span(0, 9))
		r.cache(mine, span(50, 54))
		step()
		other(span(50, 60))
		blocks, m := r.take(mine, span(0, 9))
		require.Zero(t, m.Tokens)
		step()
		r.release(blocks)
		r.cache(mine, span(0, 9))
		other(span(0, 5))
		blocks, m = r.take(mine, span(0, 7))
		require.Equal(t, 7, m.Tokens)
		step()
		if neighbour {
			require.True(t, r.tree.Forget(r.cache(theirs, span(0, 9))[0]))
		}
		r.release(blocks)
		step()
		return out
	}
	require.Equal(t, run(false), run(true))
}

// Nothing is known of a salt without blocks and limits, and nothing remains.
func TestTenantsComeAndGo(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2})
	a := salted("a")
	require.Zero(t, r.tree.SaltStats(a))
	r.take(a, span(0, 4)) // counted for the tree alone
	require.Zero(t, r.tree.SaltStats(a))
	require.NoError(t, r.tree.SetLimits(a, Limits{Floor: 1}))
	require.Equal(t, []Limits{{Floor: 1}, {}}, []Limits{r.tree.Limits(a), r.tree.Limits(salted("b"))})
	r.take(a, span(0, 4))
	require.Equal(t, 1, r.tree.SaltStats(a).Lookups)
	require.NoError(t, r.tree.SetLimits(a, Limits{}))
	require.Zero(t, r.tree.Limits(a))
	require.Empty(t, r.tree.tenants)
	for i := range 100 {
		r.cache(salted(fmt.Sprint(i)), span(0, 4))
	}
	require.LessOrEqual(t, len(r.tree.tenants), 4)
	require.Len(t, r.tree.roots, len(r.tree.tenants))
	require.NoError(t, r.tree.Clear(false))
	require.Empty(t, r.tree.tenants)
	require.Equal(t, slices.Repeat([]uint32{none}, len(r.tree.firstBlocks)), []uint32(r.tree.firstBlocks))
}

// At the quota a tenant's new blocks displace his own, and what he uses counts.
func TestQuota(t *testing.T) {
	r := newRig(t, 20, Config{BlockSize: 1, Policy: LRU})
	a := salted("a")
	require.NoError(t, r.tree.SetLimits(a, Limits{Quota: 4}))
	b := r.cache(r.root, span(0, 5))
	r.cache(a, span(0, 4))
	r.cache(a, span(10, 13))
	require.Equal(t, 4, r.tree.SaltStats(a).Blocks)
	require.Equal(t, 3, r.tree.SaltStats(a).Evicted)
	require.Equal(t, []bool{true, true, true, true, true}, r.has(b))

	used := r.hold(Path{Root: a}, span(20, 26)) // more than the quota: the rest stays private
	require.Equal(t, []bool{true, true, true, true, false, false}, r.has(used))
	n := r.insert(Path{Root: a, Parent: used[3]}, span(24, 26), used[4:])
	require.Zero(t, n)
	r.release(used)
	require.Equal(t, 4, r.tree.SaltStats(a).Blocks)
	require.Equal(t, 11, r.alloc.Free())
}

// A quota that is set while more is in use takes effect as the blocks are released.
func TestQuotaBelowUse(t *testing.T) {
	r := newRig(t, 20, Config{BlockSize: 1, Policy: LRU})
	a := salted("a")
	used := r.hold(Path{Root: a}, span(0, 8))
	more := r.cache(a, span(10, 14))
	require.NoError(t, r.tree.SetLimits(a, Limits{Quota: 3}))
	require.Equal(t, []bool{false, false, false, false}, r.has(more))
	require.Equal(t, 8, r.tree.SaltStats(a).Blocks)
	r.release(used[6:])
	require.Equal(t, 6, r.tree.SaltStats(a).Blocks)
	r.release(used[:6])
	require.Equal(t, 3, r.tree.SaltStats(a).Blocks)
	_, m := r.match(a, span(0, 8))
	require.Equal(t, 3, m.Tokens)

	lease, err := r.tree.Pin(a, Query{Tokens: span(0, 3)}, time.Second)
	require.NoError(t, err)
	require.NoError(t, r.tree.SetLimits(a, Limits{Quota: 1}))
	require.Equal(t, 3, r.tree.SaltStats(a).Blocks)
	require.NoError(t, r.tree.Unpin(lease))
	require.Equal(t, 1, r.tree.SaltStats(a).Blocks)
}

// Within the floor a tenant's blocks are evicted for himself alone.
func TestFloor(t *testing.T) {
	r := newRig(t, 10, Config{BlockSize: 1, Policy: LRU})
	a, b := salted("a"), salted("b")
	require.NoError(t, r.tree.SetLimits(a, Limits{Floor: 3}))
	require.Equal(t, 10, r.alloc.Free()) // kept once it is filled, not before
	r.cache(a, span(0, 5))
	r.cache(b, span(0, 5))
	require.Equal(t, []int{7, 7, 10}, []int{r.tree.Evictable(r.root), r.tree.Evictable(b), r.tree.Evictable(a)})
	require.False(t, r.tree.Evict(8, b))
	require.True(t, r.tree.Evict(7, b))
	require.Equal(t, 3, r.tree.SaltStats(a).Blocks)
	require.Zero(t, r.tree.Evictable(b))
	require.Equal(t, 3, r.tree.Evictable(a))
	require.False(t, r.tree.Evict(1, b))
	require.True(t, r.tree.Evict(1, a))
	require.Equal(t, 2, r.tree.SaltStats(a).Blocks)
	require.False(t, r.tree.EvictAny(3))
	require.True(t, r.tree.EvictAny(2)) // for those who were promised blocks before
	require.Zero(t, r.tree.SaltStats(a).Blocks)
}

// Of a tenant's own and others' blocks the one that was released first goes, and a
// floor does not keep his own from him as long as others have older ones.
func TestFloorKeepsTheOrder(t *testing.T) {
	r := newRig(t, 10, Config{BlockSize: 1, Policy: LRU})
	a := salted("a")
	require.NoError(t, r.tree.SetLimits(a, Limits{Floor: 2}))
	other := r.cache(r.root, []uint32{1})
	r.cache(a, []uint32{1})
	r.cache(a, []uint32{2})
	require.True(t, r.tree.Evict(1, a))
	require.Equal(t, []bool{false}, r.has(other))
	other = r.cache(r.root, []uint32{5})
	require.True(t, r.tree.Evict(1, a))
	require.Equal(t, []bool{true}, r.has(other))
	require.Equal(t, 1, r.tree.SaltStats(a).Blocks)
}

// Setting and removing limits moves a tenant's blocks, and keeps their order.
func TestLimitsMove(t *testing.T) {
	for p := Adaptive; p <= lastPolicy; p++ {
		r := newRig(t, 20, Config{BlockSize: 1, Policy: p})
		a := salted("a")
		r.cache(a, span(0, 3))
		r.cache(r.root, span(0, 3))
		r.cache(a, span(10, 13))
		held := r.hold(Path{Root: a}, span(10, 12))
		for _, l := range []Limits{{Floor: 2}, {Quota: 9, Floor: 6}, {Quota: 7}, {}, {Floor: 20}, {}} {
			require.NoError(t, r.tree.SetLimits(a, l))
			r.check()
			require.Equal(t, [3]int{6, 4, 2}, [3]int{r.tree.SaltStats(a).Blocks, r.tree.SaltStats(a).Cached, r.tree.SaltStats(a).Held})
		}
		if p != Adaptive { // which has an order of its own
			require.True(t, r.tree.Evict(3, r.root)) // what has moved counts as released then
			require.Equal(t, 6, r.tree.SaltStats(a).Blocks)
			require.True(t, r.tree.Evict(3, r.root))
			_, m := r.match(a, span(0, 3))
			require.Zero(t, m.Tokens, "%v", p)
		}
		r.release(held)
	}
}

func TestLimitArguments(t *testing.T) {
	r := newRig(t, 10, Config{BlockSize: 1})
	a, b := salted("a"), salted("b")
	require.NoError(t, r.tree.SetLimits(a, Limits{Floor: 6}))
	for _, l := range []Limits{{Quota: -1}, {Floor: -1}, {Quota: 2, Floor: 3}, {Floor: 5}, {Floor: 11}, {Floor: math.MaxInt - 1}} {
		require.ErrorIs(t, r.tree.SetLimits(b, l), ErrArgument{}, "%+v", l)
		require.Len(t, r.tree.tenants, 1)
	}
	require.NoError(t, r.tree.SetLimits(b, Limits{Quota: math.MaxInt - 1, Floor: 4}))
	require.NoError(t, r.tree.SetLimits(a, Limits{Floor: 5})) // his own floor does not count twice
	require.ErrorIs(t, r.tree.SetLimits(a, Limits{Floor: 7}), ErrArgument{})
	require.Equal(t, 5, r.tree.Limits(a).Floor)
}

// Thousands of tenants with floors and quotas: a victim is found among their fronts
// by a heap, and every floor holds.
func TestThousandsOfFloors(t *testing.T) {
	const tenants = 2000
	r := newRig(t, 4*tenants, Config{BlockSize: 1, Policy: LRU})
	for i := range tenants {
		root := salted(fmt.Sprint(i))
		require.NoError(t, r.tree.SetLimits(root, Limits{Floor: i % 3, Quota: 4}))
		r.cache(root, span(0, 3))
	}
	r.check()
	spare := 0
	for i := range tenants {
		spare += 3 - i%3
	}
	require.Equal(t, spare, r.tree.Evictable(r.root))
	require.True(t, r.tree.Evict(spare, r.root))
	r.check()
	for i := range tenants {
		require.Equal(t, i%3, r.tree.SaltStats(salted(fmt.Sprint(i))).Blocks)
	}
	// What was promised goes whoever's floor it is, in the order of release.
	require.False(t, r.tree.Evict(1, r.root))
	require.True(t, r.tree.EvictAny(3))
	r.check()
	require.Zero(t, r.tree.SaltStats(salted("1")).Blocks)
	require.Zero(t, r.tree.SaltStats(salted("2")).Blocks)
	require.Equal(t, 1, r.tree.SaltStats(salted("4")).Blocks)
	require.False(t, r.tree.EvictAny(r.tree.Stats().Cached+1))
	require.True(t, r.tree.EvictAny(r.tree.Stats().Cached))
	r.check()
}
