package prefix

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// Each test here is a defect that an earlier prefix cache had, as far as it concerns a
// tree; those of a cache of snapshots are tested where that is.

// A prompt that shares only the beginning of a stored one is a hit, and so is a bare
// prefix of it.
func TestRegressionPartialSegment(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 16})
	r.cache(r.root, []uint32{1, 2, 3, 4, 5})
	for _, query := range [][]uint32{{1, 2, 3, 4, 9}, {1, 2, 3, 4}} {
		_, m := r.match(r.root, query)
		require.Equal(t, 4, m.Tokens)
	}
}

// A lookup that misses refreshes nothing: what leads to the miss is as old as before.
func TestRegressionMissTouchesNothing(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2, MinPrefix: 4, Policy: LRU})
	old := r.cache(r.root, span(0, 2))
	young := r.cache(r.root, span(10, 12))
	r.take(r.root, append(span(0, 2), 99)) // too short
	r.match(r.root, span(0, 2))
	require.True(t, r.tree.Evict(1, r.root))
	require.Equal(t, []bool{false}, r.has(old))
	require.Equal(t, []bool{true}, r.has(young))
}

// An empty prompt is in no tree and matches none.
func TestRegressionEmptyPrompt(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 2})
	r.cache(r.root, nil)
	require.Zero(t, r.tree.Stats().Blocks)
	r.cache(r.root, span(0, 4))
	_, m := r.match(r.root, nil)
	require.Zero(t, m.Tokens)
	require.Equal(t, TooShort, m.MissReason())
}

// What passes through is one run again when the branch has gone.
func TestRegressionPassThroughNodes(t *testing.T) {
	r := newRig(t, 64, Config{BlockSize: 1, Policy: LRU})
	for i := range 9 {
		r.cache(r.root, append(span(0, 9-i), 50))
	}
	require.Greater(t, r.tree.Stats().Nodes, 9)
	blocks, _ := r.take(r.root, span(0, 9))
	require.True(t, r.tree.Evict(9, r.root))
	require.Equal(t, 1, r.tree.Stats().Nodes)
	r.release(blocks)
}

// Owners count: what is in use stays, however full the cache is.
func TestRegressionReferencesCount(t *testing.T) {
	r := newRig(t, 4, Config{BlockSize: 1})
	used := r.hold(Path{Root: r.root}, span(0, 2))
	for i := range uint32(20) {
		r.cache(r.root, []uint32{100 + i})
	}
	require.Equal(t, []bool{true, true}, r.has(used))
	r.release(used)
}

// A prompt that is larger than all there is evicts nothing, least of all itself.
func TestRegressionOversize(t *testing.T) {
	r := newRig(t, 4, Config{BlockSize: 1})
	r.cache(r.root, span(0, 4))
	require.False(t, r.tree.Evict(5, r.root))
	require.Equal(t, 4, r.tree.Stats().Blocks)
}

// Very long paths are no recursion.
func TestRegressionDepth(t *testing.T) {
	r := newRig(t, 100_000, Config{BlockSize: 1})
	r.cache(r.root, span(0, 100_000))
	_, m := r.match(r.root, span(0, 100_000))
	require.Equal(t, 100_000, m.Tokens)
	require.NoError(t, r.tree.Clear(false))
}

// F9: what decode writes is not in a shared block: it publishes a copy of its own, and
// the prompt's blocks are what they were, for the same prompt again.
func TestRegressionF9DecodeLeavesPromptAlone(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4})
	first := r.hold(Path{Root: r.root}, span(0, 6))
	kept := slices.Clone(first)
	copied := r.fresh(r.root, 1)
	r.insert(Path{Root: r.root, Parent: first[0]}, span(4, 8), copied)
	again, m := r.take(r.root, span(0, 6))
	require.Equal(t, 6, m.Tokens)
	require.Equal(t, []block.Block{kept[0], copied[0]}, again)
	require.Equal(t, []int{1}, r.refs(kept[1:]))
	r.release(again)
	r.release(first)
	r.release(copied)
}

// F18: hits are decided by tokens, model and tenant, and the hottest path is not the
// first to go.
func TestRegressionF18IdentityAndOrder(t *testing.T) {
	r := newRig(t, 6, Config{BlockSize: 2, Policy: LRU})
	r.cache(r.root, span(0, 4))
	node := r.tree.roots[r.root.Key].node.kids
	other := span(10, 14)
	// Even where every hash says so, other tokens are no hit.
	for i, b := range node.blocks {
		r.tree.entries[b.ID].hash = hashLabel(uint64(i), other[2*i:2*i+2], mark{})
	}
	_, m := r.match(r.root, other)
	require.Zero(t, m.Tokens)
	require.NoError(t, r.tree.Clear(false))

	cold := r.cache(r.root, span(20, 24))
	hot := r.cache(r.root, span(0, 4))
	r.cache(r.root, span(0, 4))
	r.cache(r.root, span(50, 54))
	r.cache(r.root, span(60, 64))
	require.Equal(t, []bool{false, false}, r.has(cold))
	require.Equal(t, []bool{true, true}, r.has(hot))
}

// Two forks of a path that is not published yet: when one of them publishes it and
// another prompt's blocks take the place of some, the other fork owns none of those.
// Its own blocks stay out of the tree.
func TestRegressionForkBeforePublication(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 1})
	u := r.fresh(r.root, 2)
	require.NoError(t, r.alloc.RetainN(u))
	v := slices.Clone(u)
	twin := r.cache(r.root, span(0, 1))
	n := r.insert(Path{Root: r.root}, span(0, 2), u)
	require.Equal(t, 1, n)
	require.Equal(t, twin[0], u[0])
	r.release(u)
	r.check()
	r.release(v)
	require.Equal(t, [2]int{7, 1}, [2]int{r.alloc.Free(), r.alloc.Cached()})
}
