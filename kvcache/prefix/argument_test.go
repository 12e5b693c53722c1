package prefix

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// A call that fails leaves tree, allocator and arguments as they were.
func TestFailuresChangeNothing(t *testing.T) {
	r := newRig(t, 16, Config{BlockSize: 2})
	sub, _ := r.tree.Subscribe(100)
	a := r.hold(Path{Root: r.root}, span(0, 7)) // ends with a tail
	gone := r.hold(Path{Root: r.root}, span(50, 52))
	require.True(t, r.tree.Forget(gone[0]))
	cached := r.cache(r.root, span(60, 64))
	fresh := r.fresh(r.root, 3)
	stale := block.Block{ID: fresh[0].ID, Gen: fresh[0].Gen + 1}
	foreign := block.Block{ID: 99, Gen: 1}
	listen(sub)

	insert := func(p Path, tokens []uint32, blocks ...block.Block) error {
		n, old, err := r.tree.Insert(nil, p, tokens, blocks)
		require.Zero(t, n)
		require.Empty(t, old)
		return err
	}
	take := func(k RetentionHint) error {
		blocks, m, err := r.tree.Take(nil, r.root, Query{Tokens: span(0, 7)}, k, Match{})
		require.Empty(t, blocks)
		require.Zero(t, m)
		return err
	}
	at := func(b block.Block) Path { return Path{Root: r.root, Parent: b} }
	keep := func(k RetentionHint) Path { return Path{Root: r.root, RetentionHint: k} }
	bad := ErrArgument{}
	for i, x := range []struct {
		err, want error
	}{
		{insert(keep(RetentionHint{}), span(0, 2)), bad}, // no block
		{insert(keep(RetentionHint{}), nil, fresh[0]), bad},
		{insert(keep(RetentionHint{}), span(0, 3), fresh[0]), bad},
		{insert(keep(RetentionHint{}), span(0, 2), fresh[:2]...), bad},
		{insert(keep(RetentionHint{Priority: 101}), span(0, 2), fresh[0]), bad},
		{insert(keep(RetentionHint{Priority: -1}), span(0, 2), fresh[0]), bad},
		{insert(keep(RetentionHint{TTL: -1}), span(0, 2), fresh[0]), bad},
		{insert(at(a[3]), span(7, 9), fresh[0]), bad},              // after a tail
		{insert(at(gone[0]), span(52, 54), fresh[0]), ErrDetached}, // not in the tree
		{insert(at(foreign), span(0, 2), fresh[0]), ErrDetached},
		{insert(at(block.Block{ID: a[0].ID, Gen: a[0].Gen + 1}), span(2, 4), fresh[0]), ErrDetached},
		{insert(Path{Root: salted("x"), Parent: a[0]}, span(2, 4), fresh[0]), ErrDetached}, // in another's tree
		{insert(at(cached[1]), span(64, 66), fresh[0]), block.ErrNotHeld},
		{insert(keep(RetentionHint{}), span(70, 74), fresh[0], stale), block.ErrStale},
		{insert(keep(RetentionHint{}), span(70, 74), fresh[0], foreign), block.ErrUnknown},
		{insert(keep(RetentionHint{}), span(70, 74), fresh[0], cached[0]), block.ErrNotHeld},
		{insert(keep(RetentionHint{}), span(70, 74), fresh[0], fresh[0]), bad}, // twice
		{insert(keep(RetentionHint{}), span(70, 74), fresh[0], a[0]), bad},     // elsewhere in the tree
		{insert(at(a[0]), span(0, 2), a[0]), bad},
		{take(RetentionHint{Priority: 101}), bad},
		{take(RetentionHint{TTL: -time.Second}), bad},
		{r.tree.Release([]block.Block{a[0], foreign}), block.ErrUnknown},
		{r.tree.Release([]block.Block{a[0], a[0]}), block.ErrDoubleFree},
		{r.tree.Release([]block.Block{a[0], stale}), block.ErrStale},
		{r.tree.Release(cached), block.ErrDoubleFree},
		{r.tree.Release([]block.Block{fresh[0], a[0]}), bad},
		{r.tree.SetLimits(r.root, Limits{Floor: 17}), bad},
		{r.tree.Clear(false), ErrInUse{}},
	} {
		require.ErrorIs(t, x.err, x.want, "case %d", i)
		require.NotEmpty(t, x.err.Error())
	}
	require.False(t, r.tree.Forget(foreign))
	require.False(t, r.tree.Forget(gone[0]))
	require.False(t, r.tree.Evict(3, r.root))
	require.True(t, r.tree.Evict(-1, r.root)) // fewer than none are there

	require.Empty(t, listen(sub))
	require.Equal(t, "root 6 blocks\n  [0 1]*[2 3]*[4 5]*[6]*\n  [60 61][62 63]\n", dump(r.tree))
	require.Equal(t, Stats{Blocks: 6, Cached: 2, Held: 4, Nodes: 2, Roots: 1, Lookups: 3, TokensQueried: 13, Misses: [numMissReasons]int{NeverSeen: 3}}, r.tree.Stats())
	require.Equal(t, []int{1, 1, 1, 1}, r.refs(a))
	require.Equal(t, []int{1, 1, 1}, r.refs(fresh))
}

// The same block in an insertion once more is where it was.
func TestInsertAgain(t *testing.T) {
	r := newRig(t, 600, Config{BlockSize: 2})
	a := r.hold(Path{Root: r.root}, span(0, 1001))
	n, old, err := r.tree.Insert(nil, Path{Root: r.root}, span(0, 1001), a)
	require.NoError(t, err)
	require.Equal(t, 501, n)
	require.Empty(t, old)
	n, _, err = r.tree.Insert(nil, Path{Root: r.root, Parent: a[0]}, span(2, 1001), a[1:])
	require.NoError(t, err)
	require.Equal(t, 500, n)
	n, _, err = r.tree.Insert(nil, Path{Root: r.root}, nil, nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestNewArguments(t *testing.T) {
	alloc, err := block.New(1)
	require.NoError(t, err)
	for _, cfg := range []Config{{}, {BlockSize: -1}, {BlockSize: 1 << 25}, {BlockSize: 1, MinPrefix: -1}, {BlockSize: 1, Policy: Off}, {BlockSize: 1, Policy: 99}} {
		_, err := New(alloc, cfg)
		require.ErrorIs(t, err, ErrArgument{}, "%+v", cfg)
	}
	_, err = New(nil, Config{BlockSize: 1})
	require.ErrorIs(t, err, ErrArgument{})
	tree, err := New(alloc, Config{BlockSize: 1})
	require.NoError(t, err)
	require.Equal(t, 1, tree.BlockSize())
	l, err := tree.Pin(Root{}, Query{}, time.Hour) // by the clock of the machine
	require.NoError(t, err)
	require.NoError(t, tree.Unpin(l))
}

func TestErrors(t *testing.T) {
	require.Equal(t, "prefix: 3 cached blocks are in use; release their sequences and leases, or clear by force", ErrInUse{3}.Error())
	require.ErrorIs(t, ErrInUse{3}, ErrInUse{})
	require.NotErrorIs(t, ErrInUse{3}, ErrInUse{2})
	require.NotErrorIs(t, errors.New("other"), ErrInUse{})
	require.NotErrorIs(t, ErrInUse{}, ErrArgument{})
	require.ErrorContains(t, ErrArgument{Op: "insert", Why: "no"}, "prefix: insert: no")
}

// The tree follows an allocator that grows.
func TestAllocatorGrows(t *testing.T) {
	r := newRig(t, 2, Config{BlockSize: 1})
	r.cache(r.root, span(0, 2))
	require.NoError(t, r.alloc.Grow(200))
	r.cache(r.root, span(0, 150))
	_, m := r.match(r.root, span(0, 150))
	require.Equal(t, 150, m.Tokens)
	require.True(t, r.tree.Evict(150, r.root))
	_, m = r.match(r.root, span(0, 150))
	require.Equal(t, WasEvicted, m.MissReason())
}

// A tree that was changed without its lock, or has a bug, says so.
func TestCheckFinds(t *testing.T) {
	harm := map[string]func(*rig){
		"entry's node":      func(r *rig) { r.tree.entries[0].node = nil },
		"entry's hash":      func(r *rig) { r.tree.entries[0].hash++ },
		"entry's state":     func(r *rig) { r.tree.entries[0].state = queued },
		"owner":             func(r *rig) { _ = r.alloc.Release(block.Block{ID: 1, Gen: 1}, true) },
		"token":             func(r *rig) { r.tree.roots[r.root.Key].node.kids.tokens[1]++ },
		"tokens":            func(r *rig) { n := r.tree.roots[r.root.Key].node.kids; n.tokens = n.tokens[1:] },
		"marks":             func(r *rig) { r.tree.roots[r.root.Key].node.kids.marks = make([]mark, 9) },
		"depth":             func(r *rig) { r.tree.roots[r.root.Key].node.kids.depth++ },
		"count of nodes":    func(r *rig) { r.tree.stats.Nodes++ },
		"count of blocks":   func(r *rig) { r.tree.stats.Blocks++ },
		"count of queued":   func(r *rig) { r.tree.stats.Cached++ },
		"count of a tenant": func(r *rig) { r.tree.tenants[r.root.tenant].stats.Blocks++ },
		"count of a share":  func(r *rig) { r.tree.book.Enter(r.tree.book.Common()) },
		"siblings": func(r *rig) {
			n := &r.tree.roots[r.root.Key].node
			n.kids.weight, n.kids.right, n.kids.left = 0, n.kids.left, n.kids.right
		},
		"root's key": func(r *rig) { r.tree.roots[r.root.Key].Key[0]++ },
		"empty root": func(r *rig) { r.tree.makeRoot(salted("x")) },
		"cached parent": func(r *rig) {
			blocks, _, _ := r.tree.Take(nil, r.root, Query{Tokens: span(10, 14)}, RetentionHint{}, Match{})
			_ = r.tree.Release(blocks[:1])
		},
		"run that was not joined": func(r *rig) { n := r.tree.roots[r.root.Key].node.kids; r.tree.split(n, 1) },
		"something behind a tail": func(r *rig) {
			n := r.tree.roots[r.root.Key].node.kids
			n.tokens, n.kids = n.tokens[:3], &node{root: n.root, parent: n}
		},
	}
	for name, f := range harm {
		alloc, err := block.New(8)
		require.NoError(t, err)
		tree, err := New(alloc, Config{BlockSize: 2, Policy: LRU})
		require.NoError(t, err)
		r := &rig{t: t, tree: tree, alloc: alloc, root: fingerprint.Root(Scope{})}
		r.hold(Path{Root: r.root}, span(0, 4))
		r.cache(r.root, span(10, 14))
		require.NoError(t, tree.Check())
		f(r)
		err = tree.Check()
		require.Error(t, err, name)
		require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, block.ErrCorrupt), fmt.Sprint(name, err))
	}
}
