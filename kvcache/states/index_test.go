package states

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
)

// plainIndex is an index that looks at all there is.
type plainIndex []*state

func (x plainIndex) sorted() plainIndex {
	slices.SortFunc(x, func(a, b *state) int {
		return cmp.Or(slices.Compare(a.Key.Tokens, b.Key.Tokens), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return x
}

func (x plainIndex) nearest(tokens []uint32) (out *state, most int) {
	for _, s := range x {
		if n := common(s.Key.Tokens, tokens); n > most {
			out, most = s, n
		}
	}
	return out, most
}

func (x plainIndex) nearestWhole(tokens []uint32) (out *state, most int) {
	for _, s := range x {
		if n := common(s.Key.Tokens, tokens); n > most && n == len(s.Key.Tokens) {
			out, most = s, n
		}
	}
	return out, most
}

func (x plainIndex) has(name string, tokens []uint32) bool {
	return slices.ContainsFunc(x, func(s *state) bool { return s.Key.Name == name && slices.Equal(s.Key.Tokens, tokens) })
}

// requireTree is that a tree is one: nodes that fork or have states, in their order, and two a state at most.
func requireTree(t testingT, root *node) {
	t.Helper()
	nodes, states := 0, 0
	var walk func(n *node)
	walk = func(n *node) {
		nodes++
		states += len(n.own)
		require.True(t, n == root || len(n.own) > 0 || len(n.children) > 1)
		for i, c := range n.children {
			require.Greater(t, c.depth, n.depth)
			require.True(t, i == 0 || n.children[i-1].first.Key.Tokens[n.depth] < c.first.Key.Tokens[n.depth])
			walk(c)
		}
		for _, s := range n.own {
			require.Len(t, s.Key.Tokens, n.depth)
		}
	}
	if root != nil {
		walk(root)
		require.LessOrEqual(t, nodes, 2*states)
	}
}

// play makes calls that numbers choose, and compares what a tree and a list of all say.
func play(t testingT, calls int, next func(n int) int) {
	x, all := index{}, plainIndex{}
	draw := func() (tokens []uint32) {
		if len(all) > 0 && next(2) == 0 { // which goes on from another
			of := all[next(len(all))].Key.Tokens
			tokens = slices.Clone(of[:next(len(of)+1)])
		}
		for range next(5) {
			tokens = append(tokens, uint32(next(3)))
		}
		return tokens[:min(len(tokens), 40)]
	}
	for call := range calls {
		root, tokens, name := x[Identity{}], draw(), fmt.Sprint(next(3))
		switch n := next(8); {
		case n < 2 && len(all) < 60:
			if !all.has(name, tokens) {
				s := &state{Info: Info{Key: Key{Name: name, Tokens: tokens}}}
				x.add(s)
				all = append(all, s).sorted()
			}
		case n < 4 && len(all) > 0:
			at := next(len(all))
			x.remove(all[at])
			x.remove(all[at]) // is not there, and nothing happens
			all = slices.Delete(all, at, at+1)
			require.Equal(t, len(all) == 0, x[Identity{}] == nil)
		case n < 6:
			want, most := all.nearest(tokens)
			got, n := root.nearest(tokens)
			require.True(t, want == got && most == n, "of %v", tokens)
		case n < 7:
			want, most := all.nearestWhole(tokens)
			got, n := root.nearestWhole(tokens)
			require.True(t, want == got && most == n, "of %v", tokens)
		case root != nil:
			require.Equal(t, all.has(name, tokens), root.has(name, tokens))
		}
		if call%100 == 0 {
			requireTree(t, x[Identity{}])
		}
	}
	requireTree(t, x[Identity{}])
}

// Whatever was added and removed, the tree says what a look at all states would.
func TestNearestOfAll(t *testing.T) {
	calls := 25_000
	if testsize.Full() {
		calls = 250_000
	}
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 4))
		play(t, calls, random.IntN)
	}
}

func FuzzNearest(f *testing.F) {
	f.Add([]byte("some calls, and what they are about"))
	f.Add([]byte{0, 3, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0, 4, 1, 1, 5, 3, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		play(t, len(b)/3, func(n int) int {
			if len(b) == 0 {
				return 0
			}
			out := int(b[0]) % n
			b = b[1:]
			return out
		})
	})
}

// What is asked of long lists takes time by their length, and not by how many there are.
func BenchmarkNearest(b *testing.B) {
	for _, states := range []int{50, 5000} {
		b.Run(fmt.Sprint(states), func(b *testing.B) {
			x, prompt := index{}, tokens(1, 30_000)
			for n := range states {
				x.add(&state{Info: Info{Key: Key{Tokens: append(tokens(1, 30_000-n), uint32(n))}}})
			}
			for b.Loop() {
				x[Identity{}].nearest(prompt)
			}
		})
	}
}
