package prefix

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// E2: a block that is not full is shared as it is. Its owner goes on in a copy, which
// takes the place of the old one; whoever still reads that keeps it.
func TestE2TailIsNeverExtended(t *testing.T) {
	for _, shared := range []bool{false, true} { // a tail after a run, and of a root
		r := newRig(t, 8, Config{BlockSize: 4})
		prompt := span(0, 6)
		if shared {
			prompt = span(4, 6)
		}
		full := len(prompt) / 4
		sub, _ := r.tree.Subscribe(10)
		a := r.hold(Path{Root: r.root}, prompt)
		tail := a[full:]
		stored := keysOf(listen(sub))
		reader, m := r.take(r.root, append(prompt, 99))
		require.Equal(t, [3]int{len(prompt), full, 2}, [3]int{m.Tokens, m.Blocks, m.Tail})
		require.Equal(t, a, reader)

		longer := append(prompt, 6, 7)
		p := Path{Root: r.root}
		if full > 0 {
			p.Parent = a[0]
		}
		_, _, err := r.tree.Insert(nil, p, longer[full*4:], a[full:])
		require.ErrorIs(t, err, ErrArgument{}, "in place") // readers see it
		require.Equal(t, []bool{true}, r.has(tail))

		own := r.fresh(r.root, 1)
		require.Equal(t, 1, r.insert(p, longer[full*4:], own))
		require.Equal(t, []bool{false}, r.has(tail))
		events := listen(sub)
		require.Len(t, events, 2)
		require.Equal(t, []EventKind{Removed, Stored}, []EventKind{events[0].Kind, events[1].Kind})
		require.Equal(t, stored[full:], events[0].Keys)
		require.Equal(t, r.root.Keys(nil, 4, Query{Tokens: longer})[full:], events[1].Keys)
		require.Equal(t, []int{2}, r.refs(tail))

		r.release(a[full:])
		r.release(reader)
		r.release(append(a[:full:full], own...))
		require.Equal(t, full+1, r.alloc.Cached())
		require.Zero(t, r.alloc.Held())
	}
}

// A tail is content with a longer one that begins alike, whoever was first.
func TestShorterTailSharesLonger(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4})
	a := r.hold(Path{Root: r.root}, span(0, 7))
	b := r.hold(Path{Root: r.root}, span(0, 6))
	require.Equal(t, a, b)
	c := r.hold(Path{Root: r.root}, append(span(0, 6), 50)) // goes on differently
	require.NotEqual(t, a[1], c[1])
	d := r.hold(Path{Root: r.root}, span(0, 8))
	require.Equal(t, []bool{true, false}, r.has(a))
	require.Equal(t, []bool{true, true}, r.has(c))
	require.Equal(t, []bool{true, true}, r.has(d))
}

// E3: a tail whose path is evicted is announced like any block; clearing takes it, too.
func TestE3TailsComeAndGo(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4, Policy: LRU})
	sub, _ := r.tree.Subscribe(10)
	r.cache(r.root, span(0, 6))
	keys := keysOf(listen(sub))
	require.Equal(t, r.root.Keys(nil, 4, Query{Tokens: span(0, 6)}), keys)
	require.True(t, r.tree.Evict(1, r.root))
	require.Equal(t, keys[1:], keysOf(listen(sub)))
	r.cache(r.root, span(0, 6))
	require.Equal(t, keys[1:], keysOf(listen(sub)))
	require.NoError(t, r.tree.Clear(false))
	require.Equal(t, Cleared, listen(sub)[0].Kind)
	require.Equal(t, 8, r.alloc.Free())
}

// Nothing is inserted after a block that is not full.
func TestNothingBehindTail(t *testing.T) {
	r := newRig(t, 8, Config{BlockSize: 4})
	a := r.hold(Path{Root: r.root}, span(0, 6))
	_, _, err := r.tree.Insert(nil, Path{Root: r.root, Parent: a[1]}, span(6, 8), r.fresh(r.root, 1))
	require.ErrorIs(t, err, ErrArgument{})
}

// Tails of other content are no neighbours: none is outgrown by another's, and each
// is where it belongs although others lie between.
func TestTailsOfOtherContent(t *testing.T) {
	r := newRig(t, 16, Config{BlockSize: 4})
	image := []Key{{1}}
	a := r.hold(Path{Root: r.root}, []uint32{1, 2})
	b := r.hold(Path{Root: r.root, Extra: image}, []uint32{1, 2, 3, 4})
	c := r.hold(Path{Root: r.root, Extra: image}, []uint32{1, 3})
	d := r.hold(Path{Root: r.root, Fidelity: Truncated}, []uint32{1, 2, 2, 2})
	e := r.hold(Path{Root: r.root}, []uint32{1, 2, 2, 9})
	for _, kept := range [][]bool{r.has(b), r.has(c), r.has(d), r.has(e)} {
		require.Equal(t, []bool{true}, kept)
	}
	require.Equal(t, []bool{false}, r.has(a), "outgrown by the one of its own kind")
}
