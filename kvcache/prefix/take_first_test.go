package prefix

import (
	"slices"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The first tokens of a match are those that a lookup of them finds, in the same blocks, and no others are owned.
func TestTakeFirstOfAnyLength(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bs := rapid.IntRange(1, 4).Draw(rt, "block size")
		minPrefix := max(rapid.IntRange(-3, 4).Draw(rt, "shortest prefix"), 0)
		r := newRig(t, 80, Config{BlockSize: bs, MinPrefix: minPrefix})
		draw := func(label string) []uint32 {
			return rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 5*bs).Draw(rt, label)
		}
		for range rapid.IntRange(1, 4).Draw(rt, "prompts") {
			p := Path{Root: r.root, Fidelity: rapid.SampledFrom([]Fidelity{Exact, Exact, Truncated}).Draw(rt, "fidelity")}
			r.release(r.hold(p, draw("prompt")))
		}
		q := Query{Tokens: draw("query"), Accept: Truncated}
		all, m := r.tree.Lookup(nil, r.root, q)
		for tokens := range len(q.Tokens) + 3 {
			firstOf(rt, r, q, all, m, tokens)
		}
	})
}

// firstOf takes that many tokens of a match.
func firstOf(t require.TestingT, r *rig, q Query, all []block.Block, m Match, tokens int) {
	want, bs := min(tokens, m.Tokens), r.tree.blockSize
	if want < r.tree.minPrefix {
		want = 0
	}
	first := r.tree.First(m, tokens)
	blocks, got, err := r.tree.TakeFirst(nil, r.root, q, RetentionHint{}, m, tokens)
	require.NoError(t, err)
	require.Equal(t, first, got)
	require.Equal(t, [3]int{want, want / bs, want % bs}, [3]int{got.Tokens, got.Blocks, got.Tail})
	n := (want + bs - 1) / bs
	require.True(t, slices.Equal(all[:n], blocks))
	for i, b := range all {
		refs, err := r.alloc.Refs(b)
		require.NoError(t, err)
		require.Equal(t, i < n, refs == 1)
	}
	lacks := Exact
	for _, b := range blocks {
		e := r.tree.at(b)
		_, label := e.node.label(e.index(), bs)
		lacks |= label.fidelity
	}
	require.Equal(t, lacks, got.Fidelity)
	if want < m.Tokens {
		require.Equal(t, WasEvicted, got.MissReason())
	} else {
		require.Equal(t, m, got)
	}
	again, _, err := r.tree.Take(nil, r.root, q, RetentionHint{}, first) // what First says is as good as a match
	require.NoError(t, err)
	require.Equal(t, blocks, again)
	r.release(again)
	r.release(blocks)
}

// A match that is out of date is looked for again, and its first tokens are taken of what there is then.
func TestTakeFirstOfAnOldMatch(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2, Policy: LRU})
	r.cache(r.root, span(0, 8))
	q := Query{Tokens: span(0, 8)}
	m := r.tree.Match(r.root, q)
	require.True(t, r.tree.Evict(2, r.root))
	for tokens, want := range map[int]int{7: 4, 4: 4, 3: 3, 0: 0} {
		blocks, got, err := r.tree.TakeFirst(nil, r.root, q, RetentionHint{}, m, tokens)
		require.NoError(t, err)
		require.Equal(t, want, got.Tokens)
		require.Len(t, blocks, (want+1)/2)
		r.release(blocks)
	}
	_, _, err := r.tree.TakeFirst(nil, r.root, q, RetentionHint{Priority: -1}, m, 2)
	require.ErrorIs(t, err, ErrArgument{})
	require.Equal(t, [2]int{4, 0}, [2]int{r.tree.Stats().Lookups - 1, r.tree.Stats().Hits}, "of a part")
	require.Equal(t, 3, r.tree.Stats().Partial)
}

// What is offloaded behind a match is not behind its first tokens.
func TestTakeFirstOfOffloaded(t *testing.T) {
	r := newRig(t, 8, tiered(8, Config{BlockSize: 2, Policy: LRU}))
	r.cache(r.root, span(0, 8))
	require.True(t, r.tree.Evict(2, r.root))
	q := Query{Tokens: span(0, 8)}
	m := r.tree.Match(r.root, q)
	require.Equal(t, [2]int{4, 4}, [2]int{m.Tokens, m.Offloaded})
	first := r.tree.First(m, 2)
	require.Equal(t, [2]int{2, 0}, [2]int{first.Tokens, first.Offloaded})
	require.Empty(t, r.tree.OffloadedKeys(nil, r.root, q, first))
	require.Equal(t, m, r.tree.First(m, 4))
}

// Left is told of every block that leaves the tree, once, whoever owns it, and of none that stays.
func TestLeft(t *testing.T) {
	var left []block.Block
	gone := func() (out []block.Block) {
		out, left = left, nil
		return out
	}
	cfg := Config{BlockSize: 2, Policy: LRU, Left: func(b block.Block) { left = append(left, b) }}
	r := newRig(t, 12, cfg)
	a := r.cache(r.root, span(0, 8))
	require.Empty(t, gone())
	require.True(t, r.tree.Evict(1, r.root))
	require.Equal(t, a[3:], gone())
	require.False(t, r.tree.Evict(9, r.root))
	require.Empty(t, gone())
	require.True(t, r.tree.EvictAny(1))
	require.Equal(t, a[2:3], gone())

	held := r.hold(Path{Root: r.root}, span(0, 8))
	require.True(t, r.tree.Forget(held[1]))
	require.Equal(t, []block.Block{held[3], held[2], held[1]}, gone(), "ends first")
	r.release(held)
	require.Empty(t, gone())

	tail := r.cache(salted("x"), span(10, 13))
	longer := r.hold(Path{Root: salted("x")}, span(10, 14))
	require.Equal(t, tail[1:], gone(), "outgrown")
	require.NoError(t, r.tree.SetLimits(salted("x"), Limits{Quota: 1}))
	require.Empty(t, gone(), "in use")
	r.release(longer)
	require.Equal(t, longer[1:], gone(), "above the quota")

	timed := r.hold(Path{Root: salted("y"), RetentionHint: RetentionHint{TTL: time.Second}}, span(0, 2))
	r.release(timed)
	r.now = r.now.Add(time.Minute)
	r.tree.Expire()
	require.Equal(t, timed, gone())
	require.NoError(t, r.tree.Clear(false))
	require.ElementsMatch(t, []block.Block{held[0], longer[0]}, gone())

	cfg.MaxOffloaded, cfg.Demote = 4, func(block.Block, Key) bool { return true }
	r = newRig(t, 12, cfg)
	a = r.cache(r.root, span(0, 4))
	require.True(t, r.tree.Evict(1, r.root))
	require.Equal(t, a[1:], gone(), "the entry stays, the block is another's")
}

func TestLeaseEnded(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2})
	r.cache(r.root, span(0, 8))
	pin := func() *Lease {
		l, err := r.tree.Pin(r.root, Query{Tokens: span(0, 4)}, time.Second)
		require.NoError(t, err)
		require.False(t, l.Ended())
		return l
	}
	a, b := pin(), pin()
	require.NoError(t, r.tree.Unpin(a))
	require.Equal(t, [2]bool{true, false}, [2]bool{a.Ended(), b.Ended()})
	r.now = r.now.Add(time.Second)
	require.False(t, b.Ended(), "nothing has noticed")
	require.True(t, r.tree.Evict(4, r.root))
	require.True(t, b.Ended())
	require.True(t, new(Lease).Ended(), "what no Pin made")
}
