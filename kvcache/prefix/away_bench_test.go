package prefix

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// halfAway is a tree of which a prompt's second half is offloaded, its first half held.
func halfAway(t testing.TB, blocks int) (r *rig, q Query, held []block.Block) {
	alloc, err := block.New(blocks)
	require.NoError(t, err)
	tree, err := New(alloc, tiered(blocks, Config{BlockSize: 16, Policy: LRU}))
	require.NoError(t, err)
	r = &rig{t: t, tree: tree, alloc: alloc, root: fingerprint.Root(Scope{})}
	q = Query{Tokens: prompt(0)}
	r.cache(r.root, q.Tokens)
	held, _ = r.take(r.root, q.Tokens[:8*promptBlocks])
	require.True(t, tree.Evict(promptBlocks/2, r.root))
	require.Equal(t, 8*promptBlocks, tree.Match(r.root, q).Offloaded)
	return r, q, held
}

// A prompt of 8,192 tokens of which half is offloaded: what is found, the keys of what is not
// here, and the way of 256 blocks back and out again.
func BenchmarkAway(b *testing.B) {
	r, q, held := halfAway(b, 1<<12)
	blocks, keys := make([]block.Block, 0, promptBlocks), make([]Key, 0, promptBlocks)
	b.Run("lookup", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			blocks, _ = r.tree.Lookup(blocks[:0], r.root, q)
		}
	})
	b.Run("keys", func(b *testing.B) {
		m := r.tree.Match(r.root, q)
		b.ReportAllocs()
		for b.Loop() {
			keys = r.tree.OffloadedKeys(keys[:0], r.root, q, m)
		}
	})
	keys = r.tree.OffloadedKeys(keys[:0], r.root, q, r.tree.Match(r.root, q))
	b.Run("promote+demote", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			blocks, _ = r.alloc.AllocateN(blocks[:0], len(keys))
			n, err := r.tree.Promote(held[len(held)-1], keys, blocks, RetentionHint{})
			if n != len(keys) || err != nil {
				b.Fatal(n, err)
			}
			_ = r.tree.Release(blocks)
			r.tree.Evict(n, r.root)
		}
	})
}

// A lookup of what is offloaded allocates nothing, nor does the way back and out again once the
// tables are as large as they get.
func TestBlocksAwayDoNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	r, q, held := halfAway(t, 1<<10)
	blocks, keys := make([]block.Block, 0, promptBlocks), make([]Key, 0, promptBlocks)
	m := r.tree.Match(r.root, q)
	all := r.tree.OffloadedKeys(nil, r.root, q, m)
	for name, f := range map[string]func(){
		"lookup": func() { r.tree.Lookup(blocks, r.root, q) },
		"keys":   func() { r.tree.OffloadedKeys(keys, r.root, q, r.tree.Match(r.root, q)) },
		"take": func() {
			taken, _, _ := r.tree.Take(blocks, r.root, q, RetentionHint{}, Match{})
			_ = r.tree.Release(taken)
		},
		"promote": func() {
			fresh, _ := r.alloc.AllocateN(blocks, len(all))
			_, _ = r.tree.Promote(held[len(held)-1], all, fresh, RetentionHint{})
			_ = r.tree.Release(fresh)
			r.tree.Evict(len(fresh), r.root)
		},
	} {
		require.Zero(t, testing.AllocsPerRun(20, f), name)
	}
	require.NoError(t, r.tree.Check())
	require.Greater(t, r.tree.Stats().Promoted, 20*len(all))
}
