package prefix

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// B11: an owner moves a path from evictable to held and back; one release too many is
// an error; what has an owner is never evicted.
func TestB11Ownership(t *testing.T) {
	r := newRig(t, 5, Config{BlockSize: 1})
	r.cache(r.root, span(0, 3))
	require.Equal(t, [2]int{3, 0}, [2]int{r.tree.Evictable(r.root), r.tree.Stats().Held})

	a, _ := r.take(r.root, span(0, 3))
	require.Equal(t, [2]int{0, 3}, [2]int{r.tree.Evictable(r.root), r.tree.Stats().Held})
	lease, err := r.tree.Pin(r.root, Query{Tokens: span(0, 2)}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []int{2, 2, 1}, r.refs(a))
	require.False(t, r.tree.Evict(1, r.root))
	r.release(a)
	require.Equal(t, 1, r.tree.Evictable(r.root))
	require.True(t, r.tree.Evict(1, r.root))
	require.False(t, r.tree.EvictAny(1))
	require.ErrorIs(t, r.tree.Release(a[2:]), block.ErrDoubleFree)
	require.Equal(t, []bool{true, true, false}, r.has(a))

	require.NoError(t, r.tree.Unpin(lease))
	require.ErrorIs(t, r.tree.Unpin(lease), ErrLeaseEnded)
	require.Equal(t, [2]int{2, 0}, [2]int{r.tree.Evictable(r.root), r.tree.Stats().Held})
	before := r.tree.Stats()
	require.ErrorIs(t, r.tree.Release(a[:2]), block.ErrDoubleFree)
	require.Equal(t, before, r.tree.Stats())
}

// B12: an eviction takes ends of paths only, gives their blocks to the allocator, and
// announces keys that were announced before.
func TestB12EvictionTakesEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, 64, Config{BlockSize: 2, Policy: Policy(rapid.IntRange(int(Adaptive), int(lastPolicy)).Draw(rt, "policy"))})
		sub, _ := r.tree.Subscribe(1000)
		for range 8 {
			r.cache(r.root, rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 12).Draw(rt, "prompt"))
		}
		stored := map[Key]bool{}
		parent := map[Key]Key{}
		for _, e := range listen(sub) {
			up := e.Parent
			for _, k := range e.Keys {
				stored[k], parent[k] = e.Kind == Stored, up
				up = k
			}
		}
		for r.alloc.Cached() > 0 {
			n := rapid.IntRange(1, min(5, r.alloc.Cached())).Draw(rt, "evict")
			free := r.alloc.Free()
			require.True(t, r.tree.Evict(n, r.root))
			require.Equal(t, free+n, r.alloc.Free())
			r.check()
			removed := keysOf(listen(sub))
			require.Len(t, removed, n)
			for _, k := range removed {
				require.True(t, stored[k])
				stored[k] = false
				for child, up := range parent {
					require.False(t, up == k && stored[child], "evicted before what hangs below it")
				}
			}
		}
	})
}

// B16: a match that is out of date is looked up again: after a split, an eviction, and
// where the blocks belong to other content by now.
func TestB16StaleMatch(t *testing.T) {
	r := newRig(t, 6, Config{BlockSize: 2, Policy: LRU})
	a := r.cache(r.root, span(0, 8))
	q := Query{Tokens: span(0, 8)}

	_, m := r.tree.Lookup(nil, r.root, q)
	r.cache(r.root, append(span(0, 4), 50, 51)) // splits the run
	taken, _, err := r.tree.Take(nil, r.root, q, RetentionHint{}, m)
	require.NoError(t, err)
	require.Equal(t, a, taken)
	r.release(taken)

	_, m = r.tree.Lookup(nil, r.root, q)
	require.Equal(t, 4, m.Blocks)
	require.True(t, r.tree.Evict(3, r.root))
	r.cache(salted("other"), span(100, 106)) // in the same blocks
	taken, m, err = r.tree.Take(nil, r.root, q, RetentionHint{}, m)
	require.NoError(t, err)
	require.Equal(t, a[:len(taken)], taken)
	require.Equal(t, m.Blocks, len(taken))
	require.Less(t, m.Blocks, 4)
	r.release(taken)

	_, m = r.match(r.root, span(0, 8))
	require.NoError(t, r.tree.Clear(true))
	taken, m, err = r.tree.Take(nil, r.root, q, RetentionHint{}, m)
	require.NoError(t, err)
	require.Empty(t, taken)
	require.Zero(t, m.Tokens)
}

// An insertion after a block that was forgotten meanwhile is refused and owns nothing.
func TestB16StaleInsert(t *testing.T) {
	r := newRig(t, 6, Config{BlockSize: 2})
	a := r.hold(Path{Root: r.root}, span(0, 4))
	require.True(t, r.tree.Forget(a[0]))
	require.False(t, r.tree.Forget(a[0]))
	fresh := r.fresh(r.root, 1)
	before := r.tree.Stats()
	n, old, err := r.tree.Insert(nil, Path{Root: r.root, Parent: a[1]}, span(4, 6), fresh)
	require.ErrorIs(t, err, ErrDetached)
	require.Zero(t, n)
	require.Empty(t, old)
	require.Equal(t, before, r.tree.Stats())
	require.Equal(t, []int{1}, r.refs(fresh))
	r.release(append(a, fresh...))
	require.Equal(t, 6, r.alloc.Free())
}

// B17: two blocks with one label: the tree keeps the first, both owners share it, and
// the second goes back to the free ones. Once more is an error.
func TestB17DuplicatesMeet(t *testing.T) {
	r := newRig(t, 6, Config{BlockSize: 2})
	a, b := r.fresh(r.root, 2), r.fresh(r.root, 3)
	own := b[0]
	require.Equal(t, 2, r.insert(Path{Root: r.root}, span(0, 4), a))
	require.Equal(t, a, r.tree.Replacements(nil, Path{Root: r.root}, span(0, 6)))
	require.Equal(t, a[1:], r.tree.Replacements(nil, Path{Root: r.root, Parent: a[0]}, span(2, 6)))
	n, old, err := r.tree.Insert(nil, Path{Root: r.root}, span(0, 6), b)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Len(t, old, 2)
	require.Equal(t, own, old[0])
	require.Equal(t, a, b[:2])
	require.Equal(t, []int{2, 2, 1}, r.refs(b))
	r.release(old)
	require.ErrorIs(t, r.tree.Release(old), block.ErrDoubleFree)
	require.Equal(t, 3, r.alloc.Free())
	r.release(a)
	require.Equal(t, []int{1, 1, 1}, r.refs(b))
	r.release(b)
	require.Equal(t, 3, r.alloc.Cached())
}

// A duplicate whose twin is cached cannot be shared where claims want all that is
// cached: the caller keeps his own.
func TestB17ClaimedTwin(t *testing.T) {
	r := newRig(t, 4, Config{BlockSize: 2})
	b := r.fresh(r.root, 2)
	r.cache(r.root, span(0, 4))
	var c block.Claim
	require.NoError(t, r.alloc.Reserve([]block.Reservation{{Claim: &c, Blocks: 2}}))
	n, old, err := r.tree.Insert(nil, Path{Root: r.root}, span(0, 4), b)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, old)

	taken, m := r.take(r.root, span(0, 4)) // nor can it be taken
	require.Empty(t, taken)
	require.Zero(t, m.Tokens)
	_, err = r.tree.Pin(r.root, Query{Tokens: span(0, 4)}, time.Second)
	require.ErrorIs(t, err, block.ErrOutOfBlocks{})
	r.check()
	r.alloc.Cancel(&c)
	taken, _ = r.take(r.root, span(0, 4))
	require.Len(t, taken, 2)
}

// Where claims leave a part of a match, that part is taken, unless it is too short.
func TestClaimsShortenMatches(t *testing.T) {
	for minPrefix, want := range map[int]int{0: 2, 4: 2, 5: 0} {
		r := newRig(t, 5, Config{BlockSize: 2, MinPrefix: minPrefix})
		r.cache(r.root, span(0, 8))
		r.cache(r.root, append(span(0, 4), 9, 9)) // the rest is in another node
		var c block.Claim
		require.NoError(t, r.alloc.Reserve([]block.Reservation{{Claim: &c, Blocks: 3}}))
		q := Query{Tokens: span(0, 8)}
		taken, m := r.take(r.root, q.Tokens)
		require.Len(t, taken, want)
		require.Equal(t, [3]int{want * 2, want, 0}, [3]int{m.Tokens, m.Blocks, m.Tail})
		r.check()
		again, _, err := r.tree.Take(nil, r.root, q, RetentionHint{}, m) // what Take said is as good
		require.NoError(t, err)
		require.Equal(t, taken, again[:min(want, len(again))])
		r.release(again)
		r.release(taken)
		r.alloc.Cancel(&c)
	}
}

// Of a match that claims shorten, only what was taken can lack anything.
func TestClaimsShortenFidelity(t *testing.T) {
	r := newRig(t, 4, Config{BlockSize: 1})
	r.cache(r.root, span(0, 2))
	r.release(r.hold(Path{Root: r.root, Fidelity: Evicted}, span(0, 3)))
	q := Query{Tokens: span(0, 3), Accept: Evicted}
	found := r.tree.Match(r.root, q)
	require.Equal(t, [2]any{3, Evicted}, [2]any{found.Tokens, found.Fidelity})
	var c block.Claim
	require.NoError(t, r.alloc.Reserve([]block.Reservation{{Claim: &c, Blocks: 2}}))
	blocks, m, err := r.tree.Take(nil, r.root, q, RetentionHint{}, found)
	require.NoError(t, err)
	require.Equal(t, [2]any{2, Exact}, [2]any{m.Tokens, m.Fidelity})
	r.release(blocks)
	r.alloc.Cancel(&c)
}

// B18: blocks that are handed out while others are evicted are never live ones.
func TestB18IssuedBlocksAreNotLive(t *testing.T) {
	r := newRig(t, 3, Config{BlockSize: 1, Policy: LRU})
	for _, token := range []uint32{10, 20, 30} {
		r.cache(r.root, []uint32{token})
	}
	live, _ := r.take(r.root, []uint32{20})
	more, _ := r.take(r.root, []uint32{30})
	live = append(live, more...)
	got := r.fresh(r.root, 1)
	require.NotContains(t, []uint32{live[0].ID, live[1].ID}, got[0].ID)
	require.False(t, r.tree.Evict(1, r.root))
}

// Blocks that are given in another order than that of their path are refused: the
// allocator would hand one out that the tree still names.
func TestReleaseOutOfOrder(t *testing.T) {
	r := newRig(t, 4, Config{BlockSize: 1})
	a := r.hold(Path{Root: r.root}, span(0, 2))
	own := r.fresh(r.root, 1)
	require.ErrorIs(t, r.tree.Release([]block.Block{own[0], a[0], a[1]}), ErrArgument{})
	require.Equal(t, []int{1, 1}, r.refs(a))
	r.check()
	r.release(append(a, own...))
	require.Equal(t, [2]int{2, 2}, [2]int{r.alloc.Free(), r.alloc.Cached()})
}

// A parent that nobody owns could be evicted under the blocks after it.
func TestInsertBehindCached(t *testing.T) {
	r := newRig(t, 4, Config{BlockSize: 1})
	a := r.cache(r.root, span(0, 2))
	_, _, err := r.tree.Insert(nil, Path{Root: r.root, Parent: a[1]}, span(2, 3), r.fresh(r.root, 1))
	require.ErrorIs(t, err, block.ErrNotHeld)
}

// A match of another question is not an answer.
func TestTakeAsksAgain(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 1})
	r.cache(r.root, []uint32{1, 2, 3})
	other := salted("b")
	for _, q := range []struct {
		root   Root
		tokens []uint32
	}{{other, []uint32{1, 2, 3}}, {r.root, []uint32{7, 8, 9}}, {r.root, []uint32{1}}} {
		m := r.tree.Match(r.root, Query{Tokens: []uint32{1, 2, 3}})
		require.Equal(t, 3, m.Tokens)
		want := r.tree.Match(q.root, Query{Tokens: q.tokens})
		blocks, got, err := r.tree.Take(nil, q.root, Query{Tokens: q.tokens}, RetentionHint{}, m)
		require.NoError(t, err)
		require.Equal(t, want.Tokens, got.Tokens)
		r.release(blocks)
	}
	r.hold(Path{Root: r.root, Fidelity: Truncated}, []uint32{5, 6})
	r.hold(Path{Root: r.root, Extra: []Key{{1}}}, []uint32{7})
	lossy := Query{Tokens: []uint32{5, 6}, Accept: Truncated}
	image := Query{Tokens: []uint32{7}, Extra: []Key{{1}}}
	for _, q := range []Query{lossy, image} {
		m := r.tree.Match(r.root, q)
		require.Equal(t, len(q.Tokens), m.Tokens)
		_, m, err := r.tree.Take(nil, r.root, Query{Tokens: q.Tokens}, RetentionHint{}, m)
		require.NoError(t, err)
		require.Zero(t, m.Tokens, "as if it were plain")
	}
	require.Empty(t, fingerprint.Root(Scope{}).Keys(nil, 0, Query{Tokens: []uint32{1}}))
	require.Empty(t, ItemKeys([]Item{{End: 1}}, 1, 0))
	r.check()
}
