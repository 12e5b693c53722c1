package plan

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// busy is when each block that a device runs at once has time for the next item, in keys.
type busy []int

func (b busy) Len() int           { return len(b) }
func (b busy) Less(i, j int) bool { return b[i] < b[j] }
func (b busy) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *busy) Push(any)          {}
func (b *busy) Pop() any          { return nil }

// duration is how long a device takes for items that are begun in their order, each for kvHeads
// heads, if reading a key takes 1 whatever the others do.
func duration(items []abi.AttendItem, kvHeads, capacity int) (end int) {
	blocks := make(busy, capacity)
	for _, it := range items {
		for range kvHeads {
			blocks[0] += int(it.KeyEnd-it.Key) + itemKeys
			end = max(end, blocks[0])
			heap.Fix(&blocks, 0)
		}
	}
	return end
}

// Decode steps of one token take little longer than if their keys were spread evenly and items
// cost nothing. What is left is the cost of items, and that parts are whole tiles of keys.
func TestBalance(t *testing.T) {
	const kvHeads, capacity = 8, 396 // three blocks on each of 132 multiprocessors
	rng := rand.New(rand.NewPCG(1, 2))
	same := func(n uint32) func() uint32 { return func() uint32 { return n } }
	for name, c := range map[string]struct {
		seqs    int
		context func() uint32
		most    float64
	}{
		"1 x 32k":     {1, same(32768), 1.15},
		"8 x 8k":      {8, same(8192), 1.12},
		"8 x 2k":      {8, same(2048), 1.35},
		"8 x 1k":      {8, same(1024), 1.5},
		"33 x 4k":     {33, same(4096), 1.2},
		"50 x 2k":     {50, same(2048), 1.4},
		"64 x 2k":     {64, same(2048), 1.15},
		"64 x 8k":     {64, same(8192), 1.08},
		"100 x 1k":    {100, same(1024), 1.4},
		"64 to 8k":    {64, func() uint32 { return 1 + rng.Uint32N(8192) }, 1.2},
		"16 to 8k":    {16, func() uint32 { return 1 + rng.Uint32N(8192) }, 1.3},
		"one is long": {64, func() uint32 { return 500 + 100000/64*64*uint32(max(0, rng.IntN(64)-62)) }, 1.3},
	} {
		var contexts, queries []uint32
		ideal := 0.
		for range c.seqs {
			contexts, queries = append(contexts, c.context()), append(queries, 1)
			ideal += float64(contexts[len(contexts)-1]) * kvHeads / capacity
		}
		s := shapeOf(f16, 4*kvHeads, kvHeads, contexts, queries)
		plan, err := Attend(s, Capacity{capacity, capacity, capacity}.Resident)
		require.NoError(t, err)
		work, err := readWork(plan.Work, callOf(s))
		require.NoError(t, err)
		require.LessOrEqual(t, float64(duration(listOf(plan.Work, work.All), kvHeads, capacity))/ideal, c.most, name)
	}
}

// No part is too short, no tile has too many, and long items come first.
func TestPartsAreNotShort(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, capacity := drawShape(r)
		s.Table = nil
		plan, err := Attend(s, capacity.Resident)
		require.NoError(r, err)
		work, err := readWork(plan.Work, callOf(s))
		require.NoError(r, err)
		for _, list := range work.Kinds {
			longest, first := uint32(1<<31), true
			keys := map[[2]uint32]int{}
			for _, it := range listOf(plan.Work, list) {
				require.True(r, first || it.KeyEnd-it.Key <= longest, "a long item behind a shorter one")
				longest, first = it.KeyEnd-it.Key, false
				tile := [2]uint32{it.Seq, it.Row}
				if _, there := keys[tile]; !there && it.Rows > 0 {
					group := s.QHeads / s.KVHeads
					see := Planned(&s)
					keys[tile] = see.Of(int(s.ContextLens[it.Seq]), int(s.QueryLens[it.Seq]), int(it.Row)/group, (int(it.Row+it.Rows)-1)/group+1).Count()
				}
				require.LessOrEqual(r, it.Parts, uint32(maxParts))
				if it.Parts > 1 { // of whole leaves at the edges of a window, which are not counted here
					require.GreaterOrEqual(r, (keys[tile]+4*abi.LeafKeys)/int(it.Parts), minKeys, "parts that are too short")
				}
			}
		}
	})
}

// The size that is found is the least one of as many parts as there is room for.
func TestSizeFor(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := planner{sharing: new(sharing)}
		total, most := 0, 0
		for range rapid.IntRange(1, 20).Draw(r, "tiles") {
			n := rapid.Uint32Range(0, 5000).Draw(r, "keys")
			p.sharing.lengths = append(p.sharing.lengths, n)
			total, most = total+int(n), max(most, int(n))
		}
		room := rapid.IntRange(len(p.sharing.lengths), 200).Draw(r, "room")
		size := p.sizeFor(total, most, room)
		require.LessOrEqual(r, p.items(size), room)
		require.GreaterOrEqual(r, size, minKeys)
		if size > minKeys {
			require.Greater(r, p.items(size-keyStep), room)
		}
	})
}
