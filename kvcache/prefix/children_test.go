package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// height is the number of levels of a treap.
func height(n *node) int {
	if n == nil {
		return 0
	}
	return 1 + max(height(n.left), height(n.right))
}

// A root with very many prompts is searched in logarithmic time, whatever the order
// in which they came: rising, falling, from both ends, or scattered.
func TestManyChildren(t *testing.T) {
	children := 100_000
	if race.Enabled {
		children = 10_000
	}
	for name, at := range map[string]func(i int) int{
		"rising":  func(i int) int { return i },
		"falling": func(i int) int { return children - 1 - i },
		"zigzag": func(i int) int {
			if i%2 == 0 {
				return i / 2
			}
			return children - 1 - i/2
		},
		"scattered": func(i int) int { return int(int64(i) * 77_773 % int64(children)) }, // a prime
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, children, Config{BlockSize: 2, Policy: LRU})
			blocks := r.fresh(r.root, children)
			for i := range children {
				r.insert(Path{Root: r.root}, []uint32{uint32(at(i)) * 2, 1}, blocks[i:i+1])
			}
			kids := r.tree.roots[r.root.Key].node.kids
			require.Less(t, height(kids), 60) // 17 at best; 3 log2 n with near certainty
			for i := 0; i < children; i += 17 {
				got, m := r.match(r.root, []uint32{uint32(at(i)) * 2, 1})
				require.Equal(t, 1, m.Blocks)
				require.Equal(t, blocks[i], got[0])
			}
			_, m := r.match(r.root, []uint32{7, 1})
			require.Zero(t, m.Tokens)
			_, m = r.match(r.root, []uint32{8, 9})
			require.Equal(t, 1, m.Tail)
			for _, b := range blocks {
				require.NoError(t, r.tree.Release([]block.Block{b}))
			}
			require.True(t, r.tree.Evict(children/2, r.root))
			r.check()
			got, m := r.match(r.root, []uint32{uint32(at(children-1)) * 2, 1})
			require.Equal(t, 1, m.Blocks)
			require.Equal(t, blocks[children-1], got[0])
		})
	}
}

// The best of the children is the one with most tokens in common, for any set of
// labels and marks.
func TestChildIsTheBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		r := newRig(t, 64, Config{BlockSize: 4})
		type label struct {
			tokens   []uint32
			extra    Key
			fidelity Fidelity
		}
		draw := func() label {
			tokens := make([]uint32, 4)
			for i := range tokens {
				tokens[i] = uint32(rng.IntN(3))
			}
			return label{tokens, Key{byte(rng.IntN(2))}, Fidelity(rng.IntN(2))}
		}
		var have []label
		for range rng.IntN(40) {
			l := draw()
			have = append(have, l)
			r.hold(Path{Root: r.root, Extra: []Key{l.extra}, Fidelity: l.fidelity}, l.tokens)
		}
		for range 20 {
			want, most := draw(), 0
			want.tokens = want.tokens[:1+rng.IntN(4)]
			for _, l := range have {
				if l.extra == want.extra && (l.fidelity == Exact || want.fidelity != Exact) {
					most = max(most, common(l.tokens, want.tokens))
				}
			}
			_, m := r.tree.Lookup(nil, r.root, Query{Tokens: want.tokens, Extra: []Key{want.extra}, Accept: want.fidelity})
			require.Equal(t, most, m.Tokens, "%v in %v", want, have)
		}
	}
}

// common against its definition, at every length and place around its steps.
func TestCommon(t *testing.T) {
	for n := range 70 {
		a := span(0, n)
		require.Equal(t, n, common(a, span(0, n)))
		require.Equal(t, n, common(a, span(0, n+3)))
		require.Equal(t, n, common(span(0, n+3), a))
		for d := range n {
			b := slices.Clone(a)
			b[d]++
			require.Equal(t, d, common(a, b))
		}
	}
}
