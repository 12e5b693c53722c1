package prefix

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The cases of the allocator that a tree has a part in. Their numbers, like those of
// groups B to G in other files, are those of docs/cases.md.

// A6: thousands of prompts through few blocks leave no entry without a block and no
// block without an entry.
func TestA6NoGhostEntries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, 12, Config{BlockSize: 2})
		for range 200 {
			tokens := rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 12).Draw(rt, "prompt")
			r.cache(r.root, tokens)
			require.Equal(t, r.tree.Stats().Blocks, r.alloc.Cached())
		}
		r.check()
		require.True(t, r.tree.Evict(r.alloc.Cached(), r.root))
		require.Equal(t, r.alloc.Total(), r.alloc.Free())
		require.Empty(t, r.tree.roots)
	})
}

// A7: what needs more than is free and evictable changes nothing.
func TestA7RefusalChangesNothing(t *testing.T) {
	r := newRig(t, 11, Config{BlockSize: 4})
	a := r.hold(Path{Root: r.root}, span(0, 12))
	b := r.cache(r.root, append(span(0, 12), span(50, 62)...))
	before, dumped := r.tree.Stats(), dump(r.tree)

	_, m := r.match(r.root, span(0, 12))
	require.Equal(t, 3, m.Blocks)
	require.Equal(t, 5, r.alloc.Free())
	require.Equal(t, 3, r.tree.Evictable(r.root))
	require.False(t, r.tree.Evict(4, r.root)) // 9 blocks for the new part: 5 free, 3 to evict

	require.Equal(t, before, r.tree.Stats())
	require.Equal(t, dumped, dump(r.tree))
	require.Equal(t, []int{1, 1, 1}, r.refs(a))
	require.Equal(t, []int{0, 0, 0}, r.refs(b[3:]))
	r.release(a)
}

// A9: a cached block that a prompt takes is not counted as one to evict, too.
func TestA9TakenBlockCountsOnce(t *testing.T) {
	r := newRig(t, 3, Config{BlockSize: 4})
	r.cache(r.root, span(0, 4))
	r.hold(Path{Root: r.root}, span(100, 104))
	require.Equal(t, []int{1, 1}, []int{r.alloc.Free(), r.tree.Evictable(r.root)})

	taken, m := r.take(r.root, span(0, 8))
	require.Equal(t, 1, m.Blocks)
	require.Equal(t, []int{1, 0}, []int{r.alloc.Free(), r.tree.Evictable(r.root)})
	require.False(t, r.tree.Evict(1, r.root))
	r.insert(Path{Root: r.root, Parent: taken[0]}, span(4, 8), r.fresh(r.root, 1))
	require.Zero(t, r.alloc.Free())
}

// A10: the total is conserved whatever is done, and letting go gives back.
func TestA10TotalIsConserved(t *testing.T) {
	r := newRig(t, 64, Config{BlockSize: 2})
	var kept [][]block.Block
	for i := range 40 {
		kept = append(kept, r.hold(Path{Root: r.root}, append(span(0, 10), span(100*i, 100*i+i%5)...)))
		r.check()
		if i%3 == 2 {
			r.release(kept[0])
			kept = kept[1:]
		}
		if len(kept) > 8 {
			r.release(kept[0])
			kept = kept[1:]
		}
	}
	for _, blocks := range kept {
		r.release(blocks)
	}
	require.Zero(t, r.alloc.Held())
	require.NoError(t, r.tree.Clear(false))
	require.Equal(t, r.alloc.Total(), r.alloc.Free())
}
