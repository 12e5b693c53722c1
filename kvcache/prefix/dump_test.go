package prefix

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// dump writes a tree as text: a line a node, indented by its depth in nodes, with the
// tokens of each block and a mark for what is special about it:
//
//   - held   ~ not exact   + depends on more than tokens   - away
//
// Children that begin with a block that is offloaded come after the others.
func dump(t *Tree) string {
	var out strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(t.roots), Key.compare) {
		fmt.Fprintf(&out, "root %d blocks\n", t.roots[key].tenant.stats.Blocks)
		dumpChildren(&out, t, t.roots[key].node.kids, 1)
		dumpChildren(&out, t, t.roots[key].node.farKids, 1)
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
		switch t.entry(b.ID).state {
		case held:
			out.WriteByte('*')
		case absent:
			out.WriteByte('-')
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
	dumpChildren(out, t, n.farKids, indent+1)
	dumpChildren(out, t, n.right, indent)
}

//go:embed testdata/*.txt
var scripts embed.FS

// TestB15Shapes draws trees after splits, merges and evictions, in the words of the rig.
func TestB15Shapes(t *testing.T) {
	drawShapes(t, newRig(t, 64, Config{BlockSize: 2, Policy: LRU}), "testdata/shapes.txt")
}

// The same of trees that remember what has left them, six blocks at most.
func TestShapesWithBlocksAway(t *testing.T) {
	drawShapes(t, newRig(t, 64, tiered(6, Config{BlockSize: 2, Policy: LRU})), "testdata/away.txt")
}

func drawShapes(t *testing.T, r *rig, script string) {
	golden.Run(t, scripts, script, func(t testing.TB, c golden.Command) string {
		switch c.Name {
		case "cache":
			r.cache(r.root, listed(t, c.Args[0].Key))
		case "hold":
			p := Path{Root: r.root}
			for _, a := range c.Args[1:] {
				switch a.Key {
				case "image": // in the second block
					p.Extra = []Key{{}, {1}}
				case "requantized":
					p.Fidelity = Requantized
				}
			}
			r.hold(p, listed(t, c.Args[0].Key))
		case "evict":
			n := r.tree.Evictable(r.root)
			if c.Args[0].Key != "all" {
				n = int(listed(t, c.Args[0].Key)[0])
			}
			require.True(t, r.tree.Evict(n, r.root))
		case "load": // what is offloaded of a prompt, all or the first blocks, in use
			n := -1
			if len(c.Args) > 1 {
				n = int(listed(t, c.Args[1].Key)[0])
			}
			r.load(listed(t, c.Args[0].Key), n)
		case "drop": // the last block of a prompt, which is offloaded
			tokens := listed(t, c.Args[0].Key)
			keys := r.root.Keys(nil, 2, Query{Tokens: tokens})
			require.Positive(t, r.tree.Drop(keys[len(keys)-1]))
		case "forget": // the last block of a prompt, which is resident
			blocks, _ := r.match(r.root, listed(t, c.Args[0].Key))
			require.True(t, r.tree.Forget(blocks[len(blocks)-1]))
		default:
			t.Fatalf("no command %q", c.Name)
		}
		r.check()
		return dump(r.tree)
	})
}

// listed reads "1-3,7": the tokens 1, 2, 3 and 7.
func listed(t testing.TB, text string) (tokens []uint32) {
	for word := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(word, "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		require.NoError(t, err)
		to, err := strconv.Atoi(last)
		require.NoError(t, err)
		tokens = append(tokens, span(from, to+1)...)
	}
	return tokens
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
