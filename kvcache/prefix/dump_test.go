package prefix

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// dump writes a tree as text: a line a node, indented by its depth in nodes, with the
// tokens of each block and a mark for what is special about it:
//
//   - held   ~ not exact   + depends on more than tokens
func dump(t *Tree) string {
	var out strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(t.roots), Key.compare) {
		fmt.Fprintf(&out, "root %d blocks\n", t.roots[key].tenant.blocks)
		dumpChildren(&out, t, t.roots[key].node.kids, 1)
	}
	return out.String()
}

// dumpChildren writes the nodes of a treap, in order.
func dumpChildren(out *strings.Builder, t *Tree, n *node, indent int) {
	if n == nil {
		return
	}
	dumpChildren(out, t, n.left, indent)
	out.WriteString(strings.Repeat("  ", indent))
	for i, b := range n.blocks {
		tokens, m := n.label(i, t.blockSize)
		fmt.Fprint(out, tokens)
		if t.entries[b.ID].state == held {
			out.WriteByte('*')
		}
		if m.fidelity != Exact {
			out.WriteByte('~')
		}
		if m.extra != (Key{}) {
			out.WriteByte('+')
		}
	}
	out.WriteByte('\n')
	dumpChildren(out, t, n.kids, indent+1)
	dumpChildren(out, t, n.right, indent)
}

// TestB15Shapes draws trees after splits, merges and evictions. FERRUMKV_GOLDEN=write
// writes the drawings anew.
func TestB15Shapes(t *testing.T) {
	r := newRig(t, 64, Config{BlockSize: 2, Policy: LRU})
	var out strings.Builder
	show := func(title string) {
		r.check()
		fmt.Fprintf(&out, "# %s\n%s\n", title, dump(r.tree))
	}
	r.cache(r.root, span(1, 9))
	show("one prompt of four blocks is one run")
	r.cache(r.root, append(span(1, 5), span(21, 25)...))
	show("another that goes on differently behind two blocks: the run is split")
	r.cache(r.root, append(span(1, 4), 9, 9))
	show("one that differs inside the second block: rounded down to the first")
	r.cache(r.root, append(span(1, 5), span(21, 26)...))
	show("a tail of one token behind the second prompt")
	r.cache(r.root, append(span(1, 5), span(21, 27)...))
	show("a full block outgrows the tail")
	r.hold(Path{Root: r.root, Extra: []Key{{}, {1}}}, append(span(1, 5), 31))
	show("the same tokens with an image behind the second block's, in use")
	r.hold(Path{Root: r.root, Fidelity: Requantized}, append(span(1, 3), 7, 7))
	show("a block of low fidelity behind exact ones")
	require.True(t, r.tree.Evict(2, r.root))
	show("two blocks evicted: the end of the first prompt")
	require.True(t, r.tree.Evict(2, r.root))
	show("two more: the branch that differed inside a block")
	require.True(t, r.tree.Evict(r.tree.Evictable(r.root), r.root))
	show("all that is not in use")

	golden := filepath.Join("testdata", "shapes.txt")
	if os.Getenv("FERRUMKV_GOLDEN") == "write" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

// A path longer than maxRun is several nodes, which join as far as they fit when
// what kept them apart has gone.
func TestLongRunsJoin(t *testing.T) {
	r := newRig(t, 2000, Config{BlockSize: 1, Policy: LRU})
	long := append(span(0, 200), span(1000, 1100)...) // 300 blocks: a run of 256, and the rest
	other := append(span(0, 200), span(2000, 2100)...)
	r.cache(r.root, long)
	require.Equal(t, 2, r.tree.Stats().Nodes)
	r.cache(r.root, other)
	require.Equal(t, 3, r.tree.Stats().Nodes, "below the branch 56 and 44 are one")
	r.check()
	r.release(func() []block.Block { b, _ := r.take(r.root, other); return b }())
	for i := range 100 { // the end of the long one goes, then 200 and 100 do not fit
		require.True(t, r.tree.Evict(1, r.root), i)
	}
	r.check()
	require.Equal(t, 2, r.tree.Stats().Nodes)
	require.True(t, r.tree.Evict(44, r.root)) // now they do
	r.check()
	require.Equal(t, 1, r.tree.Stats().Nodes)
	b, m := r.match(r.root, other)
	require.Equal(t, 256, m.Blocks)
	require.True(t, r.tree.Forget(b[210]))
	r.check()
	require.Equal(t, 210, r.tree.Stats().Blocks)
}
