package backendtest

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requirePairs fails unless every pair of values of every two axes occurs.
func requirePairs(t require.TestingT, g grid, rows [][]int) {
	seen := map[[4]int]bool{}
	for _, row := range rows {
		require.Len(t, row, len(g.sizes))
		visitPairs(row, func(key [4]int) { seen[key] = true })
	}
	for a := range g.sizes {
		for b := a + 1; b < len(g.sizes); b++ {
			for va := range g.sizes[a] {
				for vb := range g.sizes[b] {
					require.True(t, seen[[4]int{a, va, b, vb}], "axis %d value %d never meets axis %d value %d", a, va, b, vb)
				}
			}
		}
	}
}

func TestAttendGridCoversAllPairs(t *testing.T) {
	g := attendGrid(formatAxis)
	rows := g.pairs()
	requirePairs(t, g, rows)
	require.Equal(t, rows, g.pairs(), "the grid must be the same each time")
	require.Less(t, len(rows), 130, "the cross product has 1.5 million cases, two axes alone 72")
	t.Logf("%d cases", len(rows))
}

// Cases beyond the budget must be there for a pair that costs as much by itself.
func TestAttendGridKeepsItsBudget(t *testing.T) {
	g := attendGrid(formatAxis)
	for _, row := range g.pairs() {
		cheapest := 0
		visitPairs(row, func(key [4]int) {
			alone := append([]int(nil), g.cheap...)
			alone[key[0]], alone[key[2]] = key[1], key[3]
			cheapest = max(cheapest, g.cost(alone))
		})
		require.LessOrEqual(t, g.cost(row), max(g.budget, cheapest), gridSpec(row, formatAxis).name)
	}
}

func TestReducedGridHasEveryValue(t *testing.T) {
	g := attendGrid(formatAxis)
	seen := map[[2]int]bool{}
	for _, row := range g.each() {
		for axis, v := range row {
			seen[[2]int{axis, v}] = true
		}
	}
	for axis, size := range g.sizes {
		for v := range size {
			require.True(t, seen[[2]int{axis, v}], "axis %d value %d", axis, v)
		}
	}
}

func TestPairsOfAnyGrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 6), 2, 6).Draw(t, "sizes")
		weights := rapid.SliceOfN(rapid.IntRange(0, 9), len(sizes), len(sizes)).Draw(t, "weights")
		g := grid{sizes: sizes, cheap: make([]int, len(sizes)), budget: rapid.IntRange(0, 60).Draw(t, "budget"),
			cost: func(row []int) int {
				sum := 0
				for axis, v := range row {
					sum += weights[axis] * v
				}
				return sum
			}}
		requirePairs(t, g, g.pairs())
	})
}

// A check is found by its name, and its random numbers depend on it.
func TestCheckNamesAreUnique(t *testing.T) {
	be, err := cpu.Open(cpu.Options{})
	require.NoError(t, err)
	for _, room := range rooms[*cpu.Buffer](be.Caps(), Options{}) {
		seen := map[string]bool{}
		for _, c := range room.checks {
			require.False(t, seen[c.name], "%s: %s occurs twice", room.name, c.name)
			seen[c.name] = true
		}
	}
	require.NoError(t, be.Close())
}

// Every axis value that the project promises to check is in the grid.
func TestGridHasThePromisedValues(t *testing.T) {
	require.ElementsMatch(t, [][2]int{{1, 1}, {8, 8}, {8, 2}, {32, 8}, {32, 4}, {16, 1}}, headAxis)
	require.ElementsMatch(t, [][2]int{{64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 192}, {256, 256}, {192, 128}}, dimAxis)
	var blocks, contexts []int
	for _, l := range layoutAxis {
		blocks = append(blocks, l.block)
	}
	for _, c := range contextAxis {
		contexts = append(contexts, c.context(16))
	}
	require.Subset(t, blocks, []int{8, 16, 32, 64, 0})
	require.ElementsMatch(t, []int{0, 1, 15, 16, 17, 513, 2049}, contexts)
	queries := map[int]bool{}
	for _, q := range queryAxis {
		for _, seq := range q.seqs(100) {
			queries[seq.queries] = true
		}
	}
	for _, n := range []int{1, 3, 64, 257} {
		require.True(t, queries[n], "%d queries", n)
	}
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		require.Contains(t, formatAxis, backend.Format{Act: dt, K: dt, V: dt})
	}
}
