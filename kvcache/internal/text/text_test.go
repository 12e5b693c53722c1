package text

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naive is a text by lists: the tokens, the position of each, and what was dropped where.
type naive struct {
	tokens    []uint32
	positions []int
	next      int
	evicted   bool
	published int
}

// Whatever happens to a text, what it offers is the tokens of full blocks that are not in the tree yet, under a
// fidelity that says what happened before them, and tokens are at the positions of a list.
func TestTextAgainstLists(t *testing.T) {
	const slots = 4
	rapid.Check(t, func(t *rapid.T) {
		x, n, id := New(Origin{}, slots, nil), naive{}, uint32(0)
		blocks := make([]block.Block, 100)
		want := prefix.Exact
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				var ids []uint32
				for range rapid.IntRange(1, 9).Draw(t, "tokens") {
					id++
					ids = append(ids, id)
				}
				require.NoError(t, x.Continues(ids, len(n.tokens)))
				x.Note(ids, len(n.tokens))
				if rapid.Bool().Draw(t, "given up") {
					return
				}
				x.Positions.grow(len(ids))
				n.tokens = append(slices.Clip(n.tokens), ids...)
				for range ids {
					n.positions, n.next = append(slices.Clip(n.positions), n.next), n.next+1
				}
				full := len(n.tokens) / slots
				path, tokens := x.Pending(blocks, full)
				if n.evicted || full <= n.published {
					require.Empty(t, tokens)
					return
				}
				require.Equal(t, n.tokens[n.published*slots:full*slots], tokens)
				require.Equal(t, want, path.Fidelity)
				require.Equal(t, want != prefix.Exact, path.Private, "content that is not exact takes nobody's place")
				require.Len(t, blocks[x.published:full], full-n.published)
				x.Published(full-n.published, full)
				n.published = full
			},
			"truncate": func(t *rapid.T) {
				k := rapid.IntRange(0, len(n.tokens)).Draw(t, "keep")
				x.Truncate(k)
				n.tokens, n.positions, n.published = n.tokens[:k], n.positions[:k], min(n.published, k/slots)
				if n.next = 0; k > 0 {
					n.next = slices.Max(n.positions) + 1
				}
			},
			"shift": func(t *rapid.T) {
				from := rapid.IntRange(0, len(n.tokens)).Draw(t, "from")
				count := rapid.IntRange(0, len(n.tokens)-from).Draw(t, "count")
				if count == 0 {
					return
				}
				quantized := rapid.Bool().Draw(t, "quantized")
				left := len(n.tokens) - count
				x.Shift(from, count, left, quantized)
				n.tokens = append(slices.Clone(n.tokens[:from]), n.tokens[from+count:]...)
				moved := slices.Clone(n.positions[from+count:])
				for i := range moved {
					moved[i] -= count
				}
				n.positions = append(slices.Clone(n.positions[:from]), moved...)
				if n.next -= count; x.Positions.Lists() == 0 {
					n.next = left
				}
				n.published = min(n.published, from/slots)
				if from < left && !n.evicted {
					if want |= prefix.Truncated; quantized {
						want |= prefix.Requantized
					}
				}
			},
			"requantize": func(*rapid.T) {
				x.Requantize()
				want |= prefix.Requantized
			},
			"evict": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 || len(n.tokens) == 0 {
					return
				}
				var kept []int
				for i := range n.tokens {
					if rapid.Bool().Draw(t, "keeps") {
						kept = append(kept, i)
					}
				}
				x.Positions.Keep([][]int{kept})
				x.Evict(0, len(kept))
				var tokens []uint32
				var positions []int
				for _, i := range kept {
					tokens, positions = append(tokens, n.tokens[i]), append(positions, n.positions[i])
				}
				n.tokens, n.positions, n.evicted, n.published = tokens, positions, true, 0
			},
			"": func(t *rapid.T) {
				require.Equal(t, n.next, x.Positions.Next)
				for i, p := range n.positions {
					require.Equal(t, p, x.Positions.At(0, i))
				}
				fork := x.Fork(make([]uint32, 3))
				require.Equal(t, x.Positions.Next, fork.Positions.Next)
				require.True(t, slices.Equal(x.Tokens(), fork.Tokens()))
			},
		})
	})
}

// Of all prompts and tokens of two letters, those continue a prompt that are the rest of it, or begin with that: what
// they have in common with its beginning does not matter.
func TestContinuesAsItsTokensSay(t *testing.T) {
	words := func(longest int) (all [][]uint32) {
		for n := range longest + 1 {
			for bits := range 1 << n {
				word := make([]uint32, n)
				for i := range word {
					word[i] = uint32(bits >> i & 1)
				}
				all = append(all, word)
			}
		}
		return all
	}
	for _, prompt := range words(5) {
		for have := range prompt {
			x := New(Origin{}, 4, nil)
			x.Expect(prompt, have)
			for _, ids := range words(7) {
				rest := prompt[have:]
				n := min(len(rest), len(ids))
				err := x.Continues(ids, have)
				if slices.Equal(rest[:n], ids[:n]) {
					require.NoError(t, err, "%v after %d of %v", ids, have, prompt)
					continue
				}
				var e ErrPrompt
				require.ErrorAs(t, err, &e)
				at := e.Position - have
				require.True(t, at >= 0 && at < n && slices.Equal(rest[:at], ids[:at]) && ids[at] == e.Got && rest[at] == e.Want && e.Got != e.Want, "%v after %d of %v: %v", ids, have, prompt, err)
			}
		}
	}
}
