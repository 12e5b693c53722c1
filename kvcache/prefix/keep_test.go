package prefix

import (
	"math"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// A block goes when nobody has owned it for its lifetime; a use starts that again.
func TestLifetime(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2})
	keep := RetentionHint{TTL: 10 * time.Second}
	blocks := r.hold(Path{Root: r.root, RetentionHint: keep}, span(0, 4))
	r.now = r.now.Add(time.Hour) // in use
	_, m := r.match(r.root, span(0, 4))
	require.Equal(t, 4, m.Tokens)
	r.release(blocks)
	r.now = r.now.Add(9 * time.Second)
	taken, m, err := r.tree.Take(nil, r.root, Query{Tokens: span(0, 4)}, keep, Match{})
	require.NoError(t, err)
	require.Equal(t, 4, m.Tokens)
	r.release(taken)
	r.now = r.now.Add(9 * time.Second)
	_, m = r.match(r.root, span(0, 4))
	require.Equal(t, 4, m.Tokens)

	r.now = r.now.Add(time.Second) // a reader sees that it is over before anybody changes the tree
	_, m = r.match(r.root, span(0, 4))
	require.Zero(t, m.Tokens)
	require.Equal(t, WasEvicted, m.MissReason())
	require.Equal(t, 2, r.tree.Stats().Blocks)
	r.tree.Expire()
	require.Zero(t, r.tree.Stats().Blocks)
	require.Equal(t, 8, r.alloc.Free())
	_, m = r.match(r.root, span(0, 4))
	require.Equal(t, WasEvicted, m.MissReason())
}

// The most generous lifetime counts, for the path that leads to the block, too; what
// hangs after may go earlier.
func TestLifetimeOfPaths(t *testing.T) {
	r := newRig(t, 16, Config{BlockSize: 1})
	short, long := RetentionHint{TTL: time.Second}, RetentionHint{TTL: time.Minute}
	a := r.hold(Path{Root: r.root, RetentionHint: short}, span(0, 3))
	b := r.fresh(r.root, 1)
	r.insert(Path{Root: r.root, Parent: a[1], RetentionHint: long}, []uint32{9}, b) // after the second
	r.release(append(a[:2:2], b...))
	r.release(a[2:])
	r.now = r.now.Add(2 * time.Second)
	r.take(r.root, []uint32{77})
	require.Equal(t, []bool{true, true, false}, r.has(a))
	require.Equal(t, []bool{true}, r.has(b))
	r.now = r.now.Add(time.Minute)
	r.take(r.root, []uint32{77})
	require.Zero(t, r.tree.Stats().Blocks)

	r.release(r.hold(Path{Root: r.root, RetentionHint: short}, span(0, 3)))
	r.cache(r.root, span(0, 2)) // without a limit
	r.now = r.now.Add(time.Hour)
	_, m := r.match(r.root, span(0, 3))
	require.Equal(t, 2, m.Tokens)
	require.Equal(t, WasEvicted, m.MissReason())
	require.True(t, r.tree.Evict(0, r.root))
	require.Equal(t, 2, r.tree.Stats().Blocks)
}

// A block whose content changes hands does not inherit a lifetime, nor is it
// remembered twice.
func TestLifetimesAreBounded(t *testing.T) {
	r := newRig(t, 4, Config{BlockSize: 1})
	for i := range uint32(1000) {
		r.release(r.hold(Path{Root: r.root, RetentionHint: RetentionHint{TTL: time.Hour}}, []uint32{i}))
		require.LessOrEqual(t, len(r.tree.expiry.All()), 4)
	}
	require.True(t, r.tree.Evict(4, r.root))
	require.Empty(t, r.tree.expiry.All())
	r.release(r.hold(Path{Root: r.root, RetentionHint: RetentionHint{TTL: time.Second}}, []uint32{5}))
	r.now = r.now.Add(2 * time.Second)
	require.True(t, r.tree.Evict(0, r.root)) // a change of the tree
	require.Equal(t, 4, r.alloc.Free())

	r.release(r.hold(Path{Root: r.root, RetentionHint: RetentionHint{TTL: math.MaxInt64}}, []uint32{5}))
	r.now = r.now.Add(100 * 365 * 24 * time.Hour)
	_, m := r.match(r.root, []uint32{5})
	require.Equal(t, 1, m.Tokens)
}

func TestLease(t *testing.T) {
	r := newRig(t, 12, Config{BlockSize: 2})
	r.cache(r.root, span(0, 9))
	lease, err := r.tree.Pin(r.root, Query{Tokens: span(0, 8)[:7]}, 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, [3]int{6, 3, 0}, [3]int{lease.Match.Tokens, lease.Match.Blocks, lease.Match.Tail})
	second, err := r.tree.Pin(r.root, Query{Tokens: span(0, 4)}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, 5, r.tree.Stats().Pinned)
	seen := 0
	r.tree.Leased(func(block.Block) { seen++ })
	require.Equal(t, 5, seen)

	before := dump(r.tree)
	_, err = r.tree.Pin(r.root, Query{Tokens: span(0, 4)}, time.Second) // half of 12 at most
	require.Equal(t, ErrPinned{Need: 2, Pinned: 5, Max: 6}, err)
	require.ErrorIs(t, err, ErrPinned{})
	require.NotErrorIs(t, err, ErrPinned{Need: 1})
	require.ErrorContains(t, err, "5 pinned of at most 6")
	_, err = r.tree.Pin(r.root, Query{Tokens: span(0, 2)}, 0)
	require.ErrorIs(t, err, ErrArgument{})
	require.Equal(t, before, dump(r.tree))
	require.False(t, r.tree.Evict(3, r.root))

	r.now = r.now.Add(10 * time.Second)
	require.True(t, r.tree.Evict(3, r.root)) // the first lease has ended by itself
	require.Equal(t, 2, r.tree.Stats().Pinned)
	require.ErrorIs(t, r.tree.Unpin(lease), ErrLeaseEnded)
	require.NoError(t, r.tree.Unpin(second))
	require.ErrorIs(t, r.tree.Unpin(second), ErrLeaseEnded)
	require.ErrorIs(t, r.tree.Unpin(nil), ErrLeaseEnded)
	require.ErrorIs(t, r.tree.Unpin(&Lease{}), ErrLeaseEnded)
	require.Zero(t, r.tree.Stats().Pinned)

	empty, err := r.tree.Pin(salted("x"), Query{Tokens: span(0, 8)}, time.Second)
	require.NoError(t, err)
	require.Zero(t, empty.Match.Tokens)
	require.NoError(t, r.tree.Unpin(empty))

	_, err = r.tree.Pin(r.root, Query{Tokens: span(0, 4)}, time.Second)
	require.NoError(t, err)
	require.ErrorIs(t, r.tree.Clear(false), ErrInUse{})
	r.now = r.now.Add(time.Second)
	require.NoError(t, r.tree.Clear(false), "a lease that is over uses nothing")
}

// Leases that are given back early leave nothing behind; one that is longer than time
// lasts, and one of another tree is refused.
func TestLeasesAreBounded(t *testing.T) {
	r, other := newRig(t, 8, Config{BlockSize: 1}), newRig(t, 8, Config{BlockSize: 1})
	r.cache(r.root, span(0, 3))
	forever, err := r.tree.Pin(r.root, Query{Tokens: span(0, 2)}, math.MaxInt64)
	require.NoError(t, err)
	for range 1000 {
		l, err := r.tree.Pin(r.root, Query{Tokens: span(0, 2)}, time.Hour)
		require.NoError(t, err)
		require.NoError(t, r.tree.Unpin(l))
	}
	require.Len(t, r.tree.leases.All(), 1)
	r.now = r.now.Add(100 * 365 * 24 * time.Hour)
	require.False(t, r.tree.Evict(2, r.root))
	other.cache(other.root, span(0, 3))
	theirs, err := other.tree.Pin(other.root, Query{Tokens: span(0, 2)}, time.Hour)
	require.NoError(t, err)
	require.ErrorIs(t, r.tree.Unpin(theirs), ErrLeaseEnded)
	require.NoError(t, r.tree.Unpin(forever))
	require.NoError(t, other.tree.Unpin(theirs))
}
