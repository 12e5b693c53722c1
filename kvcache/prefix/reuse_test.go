package prefix

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// B1: a second prompt shares the full blocks of a common prefix and allocates only its
// own. What was released is reused end first, and cached blocks outlive others.
func TestB1SharedPrefix(t *testing.T) {
	r := newRig(t, 10, Config{BlockSize: 16, Policy: LRU})
	a := r.hold(Path{Root: r.root}, span(0, 55)) // three full blocks and one of 7
	b := r.hold(Path{Root: r.root}, append(span(0, 48), 1000, 1001))
	require.Equal(t, a[:3], b[:3])
	require.Equal(t, []int{2, 2, 2, 1}, r.refs(b))
	require.Equal(t, 5, r.alloc.Held())
	r.release(a)
	r.release(b)

	unpublished := r.fresh(r.root, 1)
	r.release(unpublished)
	require.Equal(t, unpublished[0].ID, r.fresh(r.root, 1)[0].ID) // not a cached one
	r.fresh(r.root, 4)
	require.Zero(t, r.alloc.Free())
	for _, gone := range []block.Block{a[3], b[3], a[2], a[1], a[0]} {
		require.Equal(t, gone.ID, r.fresh(r.root, 1)[0].ID)
	}
}

// B2: taking a path again takes exactly its blocks out of the order of eviction.
func TestB2TouchedPathLeavesTheOrder(t *testing.T) {
	r := newRig(t, 10, Config{BlockSize: 1, Policy: LRU})
	a := r.cache(r.root, span(0, 3))
	b := r.cache(r.root, span(10, 13))
	again, m := r.take(r.root, span(0, 2))
	require.Equal(t, 2, m.Blocks)
	require.Equal(t, a[:2], again)
	require.Equal(t, 4, r.tree.Evictable(r.root))
	for _, gone := range []block.Block{a[2], b[2], b[1], b[0]} {
		require.True(t, r.tree.Evict(1, r.root))
		require.Equal(t, []bool{false}, r.has([]block.Block{gone}))
	}
	require.False(t, r.tree.Evict(1, r.root))
	require.Equal(t, []bool{true, true}, r.has(a[:2]))
}

// B3: of two cached blocks the one that the prompt hits stays and the other goes.
func TestB3HitIsNotItsOwnVictim(t *testing.T) {
	r := newRig(t, 2, Config{BlockSize: 4, Policy: LRU})
	a := r.cache(r.root, span(0, 4))
	b := r.cache(r.root, span(10, 14))
	c := r.hold(Path{Root: r.root}, append(span(0, 4), span(20, 24)...))
	require.Equal(t, a[0], c[0])
	require.Equal(t, b[0].ID, c[1].ID)
	_, m := r.match(r.root, span(10, 14))
	require.Zero(t, m.Tokens)
	require.Equal(t, WasEvicted, m.MissReason())
}

// B4: a block that is handed out again is no longer found under its old label.
func TestB4ReusedBlockIsForgotten(t *testing.T) {
	r := newRig(t, 1, Config{BlockSize: 4})
	old := r.cache(r.root, span(0, 4))
	now := r.fresh(r.root, 1)
	require.Equal(t, old[0].ID, now[0].ID)
	_, m := r.match(r.root, span(0, 4))
	require.Zero(t, m.Tokens)
	known, _ := r.tree.Has(old[0])
	require.False(t, known)
	require.ErrorIs(t, r.tree.Release(old), block.ErrStale)
}

// B5: during decode a block is published when it is full, the last one not before.
func TestB5Decode(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 16})
	tokens := span(0, 55)
	blocks := r.fresh(r.root, 4)
	require.Equal(t, 3, r.insert(Path{Root: r.root}, tokens[:48], blocks[:3]))
	tokens = append(tokens, span(55, 59)...) // fits the fourth
	require.Equal(t, 4, r.alloc.Free())
	_, m := r.match(r.root, tokens)
	require.Equal(t, Match{Tokens: 48, Blocks: 3}, Match{Tokens: m.Tokens, Blocks: m.Blocks, Tail: m.Tail})
	tokens = append(tokens, span(59, 78)...)
	blocks = append(blocks, r.fresh(r.root, 1)...)
	require.Equal(t, 1, r.insert(Path{Root: r.root, Parent: blocks[2]}, tokens[48:64], blocks[3:4]))
	require.Equal(t, []bool{true, true, true, true, false}, r.has(blocks))
	_, m = r.match(r.root, tokens)
	require.Equal(t, 64, m.Tokens)
	r.release(blocks)
	require.Equal(t, 4, r.alloc.Cached())
}

// B6: a request that reads nothing from the cache keeps blocks of its own, with one
// owner each, beside those that are published.
func TestB6PrivateDuplicates(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4})
	a := r.hold(Path{Root: r.root}, span(0, 8))
	own := r.fresh(r.root, 3)
	before := slices.Clone(own)
	n, old, err := r.tree.Insert(nil, Path{Root: r.root, Private: true}, span(0, 12), own)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, old)
	require.Equal(t, before, own)
	require.Equal(t, []int{1, 1, 1}, r.refs(own))
	require.Equal(t, []int{1, 1}, r.refs(a))
	r.release(own)
	r.release(a)
	require.Equal(t, 2, r.alloc.Cached())
}

// B7: a reader that needs the logits of the last token asks for all but that one, and
// what it gets ends inside of the last block.
func TestB7HeldBackToken(t *testing.T) {
	r := newRig(t, 4, Config{BlockSize: 4})
	r.cache(r.root, span(0, 8))
	blocks, m := r.match(r.root, span(0, 8)[:7])
	require.Equal(t, [3]int{7, 1, 3}, [3]int{m.Tokens, m.Blocks, m.Tail})
	require.Len(t, blocks, 2)
	require.Equal(t, Complete, m.MissReason())
}

// B8: clearing is refused while a block is in use; afterwards nothing is known and one
// event says so.
func TestB8Clear(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2})
	sub, _ := r.tree.Subscribe(100)
	a := r.hold(Path{Root: r.root}, span(0, 6))
	r.cache(salted("x"), span(0, 4))
	dumped := dump(r.tree)
	require.Equal(t, ErrInUse{Blocks: 3}, r.tree.Clear(false))
	require.Equal(t, dumped, dump(r.tree))
	r.release(a)
	listen(sub)
	require.NoError(t, r.tree.Clear(false))
	events := listen(sub)
	require.Len(t, events, 1)
	require.Equal(t, Cleared, events[0].Kind)
	require.Equal(t, 8, r.alloc.Free())
	require.Empty(t, r.tree.roots)
	_, m := r.match(r.root, span(0, 6))
	require.Zero(t, m.Tokens)
}

// A forced clear leaves their blocks to the owners, who can insert nothing behind them.
func TestForcedClearDetaches(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2})
	a := r.hold(Path{Root: r.root}, span(0, 6))
	lease, err := r.tree.Pin(r.root, Query{Tokens: span(0, 4)}, 1)
	require.NoError(t, err)
	require.NoError(t, r.tree.Clear(true))
	require.Equal(t, []int{2, 2, 1}, r.refs(a))
	_, _, err = r.tree.Insert(nil, Path{Root: r.root, Parent: a[2]}, span(6, 8), r.fresh(r.root, 1))
	require.ErrorIs(t, err, ErrDetached)
	require.NoError(t, r.tree.Unpin(lease))
	require.Equal(t, []int{1, 1, 1}, r.refs(a))
	r.release(a)
	require.Equal(t, 7, r.alloc.Free()) // all but the one that could not be inserted
	r.cache(r.root, span(0, 6))
}

// B9: the match of two prompts that first differ at token d is d rounded down to
// blocks, and the tail says how far it is to d.
func TestB9Rounding(t *testing.T) {
	const length = 3000
	for _, bs := range []int{1, 2, 3, 16, 64, 1000, 4096} {
		t.Run(fmt.Sprint(bs), func(t *testing.T) {
			r := newRig(t, length/bs+1, Config{BlockSize: bs})
			r.cache(r.root, span(0, length))
			var buf []block.Block
			for d := range length + 1 {
				query := span(0, length+5)
				query[d]++
				blocks, m := r.tree.Lookup(buf[:0], r.root, Query{Tokens: query})
				require.Equal(t, [3]int{d, d / bs, d % bs}, [3]int{m.Tokens, m.Blocks, m.Tail})
				buf = blocks
			}
		})
	}
}

// B10: two splits lose nothing.
func TestB10Splits(t *testing.T) {
	for _, bs := range []int{1, 2} {
		r := newRig(t, 20, Config{BlockSize: bs})
		a := r.cache(r.root, span(1, 9))
		b := r.cache(r.root, []uint32{1, 2, 9, 10})
		require.Equal(t, 10/bs, r.tree.Stats().Blocks)
		got, m := r.match(r.root, []uint32{1, 2, 3, 4, 999})
		require.Equal(t, 4, m.Tokens)
		require.Equal(t, a[:4/bs], got)
		got, m = r.match(r.root, span(1, 9))
		require.Equal(t, 8, m.Tokens)
		require.Equal(t, a, got)
		r.cache(r.root, []uint32{1, 2, 3, 4})
		got, _ = r.match(r.root, []uint32{1, 2, 9, 10})
		require.Equal(t, b, got)
		require.Equal(t, 10/bs, r.tree.Stats().Blocks)
	}
}

// A match that ends inside of a block names the block with most of the tokens.
func TestTailIsTheLongest(t *testing.T) {
	r := newRig(t, 200, Config{BlockSize: 8})
	image := Key{7}
	for i := range uint32(8) { // siblings with 0 to 7 tokens in common with the query
		tokens := slices.Repeat([]uint32{5}, 8)
		tokens[i] = 9
		r.cache(r.root, tokens)
		tokens[i] = 1
		r.cache(r.root, tokens)
		if i < 7 { // and some of other content, which are no neighbours
			tokens[i+1] = 4
			r.release(r.hold(Path{Root: r.root, Extra: []Key{image}}, tokens))
			r.release(r.hold(Path{Root: r.root, Fidelity: Evicted}, tokens))
		}
	}
	_, m := r.match(r.root, slices.Repeat([]uint32{5}, 8))
	require.Equal(t, 7, m.Tail)
	_, m = r.match(r.root, []uint32{5, 5, 5, 9, 0})
	require.Equal(t, 4, m.Tail)
	_, m = r.tree.Lookup(nil, r.root, Query{Tokens: []uint32{5, 5, 5, 1, 4, 3}, Extra: []Key{image}})
	require.Equal(t, 5, m.Tail)
	_, m = r.tree.Lookup(nil, r.root, Query{Tokens: []uint32{5, 5, 5, 1, 4, 3}, Accept: Evicted | Truncated})
	require.Equal(t, 5, m.Tail)
}
