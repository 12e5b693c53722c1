package snap

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const blockTokens = 8

// written is a target as a pool writes one: all chunks but the last are whole, and a chunk's tokens identify it.
func written(rng *rand.Rand, said bool) *target {
	t, n := &target{owner: nobody}, 1+rng.IntN(blockTokens)
	var list []src
	var tokens []uint32
	for at := 0; at < n; {
		s := src{chunk: rng.IntN(3), at: at}
		if at == 0 {
			s.from = rng.IntN(2)
		}
		s.tokens = min(4-s.from, n-at)
		for i := range s.tokens {
			tokens = append(tokens, uint32(10*s.chunk+s.from+i))
		}
		list, at = append(list, s), at+s.tokens
	}
	t.from = [][]src{list}
	if rng.IntN(2) == 0 { // a second strip, cut in the same way: both are of the same blocks
		t.home = 1
		t.from = append(t.from, slices.Clone(list))
		for i := range t.from[1] {
			t.from[1][i].chunk += 100
		}
	}
	if said {
		t.at = &place{before: sha256.Sum256([]byte("all before")), tokens: tokens}
	}
	return t
}

// word is the tokens of a target as chunks have them.
func word(t *target) string {
	text := fmt.Sprint(t.home, ":")
	for _, s := range t.from[0] {
		for i := range s.tokens {
			text += fmt.Sprint(s.chunk, ".", s.from+i, " ")
		}
	}
	return text
}

// Of what a pool writes, the fewest possible targets are left: those that are not the beginning of another one.
func TestSharingIsAsItWas(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 45))
	for range 2000 {
		var all []*target
		for range 1 + rng.IntN(20) {
			all = append(all, written(rng, rng.IntN(2) == 0))
		}
		slices.SortStableFunc(all, func(a, b *target) int { return cmp.Compare(b.tokens(), a.tokens()) })
		s, left := newSharing(), map[*target]bool{}
		words := map[string]bool{}
		for _, one := range all {
			o, _ := s.join(3, one)
			left[o] = true
			require.True(t, one.begins(o))
			words[word(one)] = true
		}
		longest := 0
		for a := range words {
			shorter := false
			for b := range words {
				shorter = shorter || a != b && len(a) < len(b) && b[:len(a)] == a
			}
			if !shorter {
				longest++
			}
		}
		require.Len(t, left, longest)
		require.LessOrEqual(t, s.compared, 2*len(all))
	}
}

// The common part of many targets is not compared pair by pair, and none is taken for another one: n targets with one chunk differ in
// their tokens, in what comes before them, in the chunks after it, in how much of it they have, or in the block before.
func TestSharingIsLinear(t *testing.T) {
	texts := func(i int) *place { return &place{tokens: []uint32{1, 2, uint32(i)}} }
	for name, nth := range map[string]func(i int) target{
		"tokens": func(i int) target {
			return target{from: [][]src{{{0, 0, 0, 3}}}, at: texts(i)}
		},
		"texts": func(i int) target {
			return target{from: [][]src{{{0, 0, 0, 3}}}, at: &place{before: sha256.Sum256(fmt.Append(nil, i)), tokens: []uint32{1, 2, 3}}}
		},
		"chunks": func(i int) target {
			return target{from: [][]src{{{0, 0, 0, 2}, {1 + i, 0, 2, 1}}}, at: texts(i)}
		},
		"chunks of nobody": func(i int) target {
			return target{from: [][]src{{{0, 0, 0, 2}, {1 + i, 0, 2, 1}}}}
		},
		"how many": func(i int) target {
			return target{from: [][]src{{{0, 0, 0, 9999 - i}, {1, 0, 9999 - i, 1}}}}
		},
		"another strip": func(i int) target {
			return target{from: [][]src{{{0, 0, 0, 3}}, {{1 + i, 0, 0, 3}}}}
		},
		"blocks before": func(i int) target {
			return target{from: [][]src{{{0, 0, 0, 3}}}, behind: &target{owner: i}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 5000
			s := newSharing()
			for i := range n {
				one := nth(i)
				_, there := s.join(7, &one)
				require.False(t, there)
			}
			require.LessOrEqual(t, s.compared, 2*n)
			require.LessOrEqual(t, len(s.by), 4*n)
		})
	}
}
