package prefix

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// A promotion that fails leaves tree, allocator and the order of what is offloaded as they were.
func TestFailedPromotionsChangeNothing(t *testing.T) {
	r := newRig(t, 16, tiered(16, Config{BlockSize: 2}))
	held := r.hold(Path{Root: r.root}, span(0, 4))
	r.cache(r.root, append(span(0, 4), 20, 21, 22, 23, 24, 25))
	r.cache(r.root, span(40, 46))
	cached := r.cache(r.root, span(60, 62))
	r.take(r.root, span(60, 62))
	require.True(t, r.tree.Evict(6, r.root))
	r.release(cached)
	keys := r.root.Keys(nil, 2, Query{Tokens: append(span(0, 4), 20, 21, 22, 23, 24, 25)})[2:]
	first := r.root.Keys(nil, 2, Query{Tokens: span(40, 46)})
	fresh := r.fresh(r.root, 3)
	shared := r.fresh(r.root, 1)
	require.NoError(t, r.alloc.Retain(shared[0]))
	gone := r.hold(Path{Root: r.root}, span(80, 82))
	require.True(t, r.tree.Forget(gone[0]))
	stale := block.Block{ID: fresh[0].ID, Gen: fresh[0].Gen + 1}
	foreign := block.Block{ID: 99, Gen: 1}
	far := r.tree.root(r.root).node.farKids.blocks[0] // the number of an entry that is offloaded
	sub, _ := r.tree.Subscribe(10)
	stats, drawn, order := r.tree.Stats(), dump(r.tree), r.awayKeys()

	none := block.Block{}
	bad := ErrArgument{}
	for i, x := range []struct {
		parent block.Block
		keys   []Key
		blocks []block.Block
		keep   RetentionHint
		want   error
	}{
		{held[1], keys[:2], fresh[:1], RetentionHint{}, bad},
		{held[1], keys[:1], fresh[:2], RetentionHint{}, bad},
		{held[1], nil, fresh[:1], RetentionHint{}, bad},
		{held[1], keys[:1], fresh[:1], RetentionHint{Priority: 101}, bad},
		{held[1], keys[:1], fresh[:1], RetentionHint{TTL: -1}, bad},
		{foreign, keys[:1], fresh[:1], RetentionHint{}, ErrDetached},
		{far, keys[:1], fresh[:1], RetentionHint{}, ErrDetached},
		{gone[0], keys[:1], fresh[:1], RetentionHint{}, ErrDetached},
		{cached[0], keys[:1], fresh[:1], RetentionHint{}, block.ErrNotHeld},
		{held[0], keys[:1], fresh[:1], RetentionHint{}, bad}, // not after it
		{none, keys[:1], fresh[:1], RetentionHint{}, bad},
		{held[1], keys[1:2], fresh[:1], RetentionHint{}, bad},
		{held[1], []Key{keys[0], keys[2]}, fresh[:2], RetentionHint{}, bad},
		{held[1], []Key{keys[0], keys[0]}, fresh[:2], RetentionHint{}, bad},
		{held[1], first[:1], fresh[:1], RetentionHint{}, bad},
		{held[1], keys[:2], []block.Block{fresh[0], stale}, RetentionHint{}, block.ErrStale},
		{held[1], keys[:2], []block.Block{fresh[0], foreign}, RetentionHint{}, block.ErrUnknown},
		{held[1], keys[:2], []block.Block{fresh[0], far}, RetentionHint{}, block.ErrUnknown},
		{held[1], keys[:2], []block.Block{fresh[0], cached[0]}, RetentionHint{}, block.ErrNotHeld},
		{held[1], keys[:2], []block.Block{fresh[0], fresh[0]}, RetentionHint{}, bad},
		{held[1], keys[:2], []block.Block{fresh[0], held[0]}, RetentionHint{}, bad},
		{held[1], keys[:2], []block.Block{fresh[0], shared[0]}, RetentionHint{}, bad},
	} {
		n, err := r.tree.Promote(x.parent, x.keys, x.blocks, x.keep)
		require.ErrorIs(t, err, x.want, "case %d", i)
		require.NotEmpty(t, err.Error())
		require.Zero(t, n)
	}
	for _, x := range [][]Key{nil, {{1}}, {{1}, keys[0]}} { // what is not away any more is no fault
		n, err := r.tree.Promote(held[1], x, fresh[:len(x)], RetentionHint{})
		require.NoError(t, err)
		require.Zero(t, n)
	}
	_, err := (&Tree{}).Promote(none, nil, nil, RetentionHint{})
	require.ErrorIs(t, err, bad)
	known, _ := r.tree.Has(far)
	require.False(t, known || r.tree.Forget(far))
	require.ErrorIs(t, r.tree.Release([]block.Block{far}), block.ErrUnknown)

	require.Empty(t, listen(sub))
	require.Equal(t, stats, r.tree.Stats())
	require.Equal(t, drawn, dump(r.tree))
	require.Equal(t, order, r.awayKeys())
	require.Equal(t, []int{1, 1, 1}, r.refs(fresh))

	n, err := r.tree.Promote(held[1], append(keys[:2:2], Key{1}), fresh, RetentionHint{Priority: 7})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []bool{true, true, false}, r.has(fresh))
	require.EqualValues(t, 7, r.tree.at(held[0]).priority, "for the path that leads there")
}

// awayKeys is the keys of what is offloaded, the one used least recently first.
func (r *rig) awayKeys() (keys []Key) {
	all, _ := r.tree.offloaded.list.All(r.tree.offloaded.links)
	for _, i := range all {
		e := &r.tree.offloaded.entries[i]
		keys = append(keys, e.node.keys[e.index()])
	}
	return keys
}

func TestArgumentsOfBlocksAway(t *testing.T) {
	alloc, err := block.New(4)
	require.NoError(t, err)
	ask := func(block.Block, Key) bool { return true }
	for _, cfg := range []Config{
		{BlockSize: 1, MaxOffloaded: -1, Demote: ask}, {BlockSize: 1, MaxOffloaded: maxOffloaded + 1, Demote: ask}, {BlockSize: 1, MaxOffloaded: 1},
	} {
		_, err := New(alloc, cfg)
		require.ErrorIs(t, err, ErrArgument{}, "%+v", cfg)
	}
	tree, err := New(alloc, Config{BlockSize: 1, Demote: func(block.Block, Key) bool { panic("asked without MaxOffloaded") }})
	require.NoError(t, err)
	r := &rig{t: t, tree: tree, alloc: alloc, root: fingerprint.Root(Scope{})}
	r.cache(r.root, span(0, 4))
	require.True(t, tree.Evict(4, r.root))
	require.Zero(t, tree.Stats().Offloaded)
	require.Zero(t, tree.Drop(Key{}))
	require.Empty(t, tree.OffloadedKeys(nil, r.root, Query{Tokens: span(0, 4)}, Match{}))

	most := uint64(1) << 32 // as if the allocator had grown that far
	if tree.offloaded.most = int(most); tree.offloaded.most == 0 {
		return // no allocator can, where int has 32 bits
	}
	b := r.fresh(r.root, 1)
	_, _, err = tree.Insert(nil, Path{Root: r.root}, span(0, 1), b)
	require.ErrorIs(t, err, ErrArgument{})
	_, err = tree.Promote(block.Block{}, []Key{{1}}, b, RetentionHint{})
	require.ErrorIs(t, err, ErrArgument{})
}

// A tree with a bug among the blocks that are offloaded says so.
func TestCheckFindsAway(t *testing.T) {
	first := func(r *rig) *entry { return &r.tree.offloaded.entries[r.tree.offloaded.list.Front()] }
	for name, harm := range map[string]func(*rig){
		"state": func(r *rig) { first(r).state = queued },
		"hash":  func(r *rig) { first(r).hash++ },
		"node":  func(r *rig) { first(r).node = nil },
		"order": func(r *rig) {
			a := &r.tree.offloaded
			i := a.list.Front()
			a.list.Pull(a.links, i)
			a.list.Push(a.links, i)
		},
		"neighbours":      func(r *rig) { l := r.tree.offloaded.links; l[0], l[1] = l[1], l[0] },
		"size":            func(r *rig) { a := &r.tree.offloaded; a.list.Push(a.links, a.index(a.number())) },
		"bound":           func(r *rig) { r.tree.offloaded.most = 2 },
		"key":             func(r *rig) { delete(r.tree.offloaded.numbers, r.awayKeys()[0]) },
		"expiry":          func(r *rig) { first(r).expires = 5 },
		"free number":     func(r *rig) { r.tree.offloaded.free = append(r.tree.offloaded.free, 3) },
		"count of salt":   func(r *rig) { r.tree.tenants[Key{}].stats.Offloaded++ },
		"node's part":     func(r *rig) { first(r).node.offloaded-- },
		"node's whole":    func(r *rig) { first(r).node.offloaded++ },
		"keys":            func(r *rig) { n := first(r).node; n.keys = n.keys[:1] },
		"wrong treap":     func(r *rig) { n := &r.tree.root(r.root).node; n.kids, n.farKids = n.farKids, n.kids },
		"resident number": func(r *rig) { n := first(r).node; n.blocks[len(n.blocks)-1] = block.Block{ID: 7} },
	} {
		r := &rig{t: t, root: fingerprint.Root(Scope{})}
		var err error
		r.alloc, err = block.New(8)
		require.NoError(t, err)
		r.tree, err = New(r.alloc, tiered(8, Config{BlockSize: 2, Policy: LRU}))
		require.NoError(t, err)
		r.cache(r.root, span(0, 4))
		r.cache(r.root, span(10, 16))
		require.True(t, r.tree.Evict(4, r.root))
		require.NoError(t, r.tree.Check())
		harm(r)
		require.ErrorIs(t, r.tree.Check(), ErrCorrupt, name)
	}
}
