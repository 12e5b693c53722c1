package backendtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireCovered fails unless every value of each strength axes occurs with every value of
// the others. It finds them another way than the grid does: by the cases of each choice.
func requireCovered(t require.TestingT, g grid, strength int, rows [][]int) {
	subsets(len(g.sizes), strength, func(axes []int) {
		seen, all := map[string]bool{}, 1
		for _, axis := range axes {
			all *= g.sizes[axis]
		}
		for _, row := range rows {
			var values []int
			for _, axis := range axes {
				require.Less(t, row[axis], g.sizes[axis])
				values = append(values, row[axis])
			}
			seen[fmt.Sprint(values)] = true
		}
		require.Len(t, seen, all, "axes %v", axes)
	})
}

// What is chosen of the grid has all values, pairs or triples, and is the same each time.
func TestAttendGridIsCovered(t *testing.T) {
	be, err := cpu.Open(cpu.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	for _, axes := range []axes{axesOf(formatAxis), axesOf(gridFormats()), listedAxes(be.Caps())} {
		g := axes.grid()
		sizes := slices.Sorted(slices.Values(g.sizes))
		for grid, more := range map[Grid]int{Values: 2, Pairs: 25, Triples: 400} {
			least := 1 // as the largest axes alone have so many choices
			for _, n := range sizes[len(sizes)-grid.strength():] {
				least *= n
			}
			rows := grid.rows(g)
			requireCovered(t, g, grid.strength(), rows)
			if grid != Triples {
				require.Equal(t, rows, grid.rows(g))
			}
			require.LessOrEqual(t, len(rows), least+more, "of %d that it takes at least: the cross product has millions of cases", least)
			t.Logf("%d formats, %d axes together: %d cases", len(axes.formats), grid.strength(), len(rows))
		}
		require.Empty(t, NoGrid.rows(g))
	}
}

// Cases beyond the budget must be there for values that cost as much by themselves: in the grid
// of Values those are the long chunks, which are in it all the same.
func TestAttendGridKeepsItsBudget(t *testing.T) {
	axes := axesOf(formatAxis)
	g := axes.grid()
	for grid, budget := range map[Grid]int{Values: smallBudget, Pairs: gridBudget} {
		sum := 0
		for _, row := range grid.rows(g) {
			cheapest := 0
			subsets(len(row), grid.strength(), func(axes []int) {
				alone := slices.Clone(g.cheap)
				for _, axis := range axes {
					alone[axis] = row[axis]
				}
				cheapest = max(cheapest, g.cost(alone))
			})
			require.LessOrEqual(t, g.cost(row), max(budget, cheapest), axes.spec(row).name)
			sum += g.cost(row)
		}
		if grid == Values {
			require.Less(t, sum, int(3e7))
		}
	}
}

func TestCoveringOfAnyGrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5), 3, 6).Draw(t, "sizes")
		weights := rapid.SliceOfN(rapid.IntRange(0, 9), len(sizes), len(sizes)).Draw(t, "weights")
		g := grid{sizes: sizes, cheap: make([]int, len(sizes)),
			cost: func(row []int) int {
				sum := 0
				for axis, v := range row {
					sum += weights[axis] * v
				}
				return sum
			}}
		strength := rapid.IntRange(1, maxStrength).Draw(t, "strength")
		requireCovered(t, g, strength, g.covering(strength, rapid.IntRange(0, 60).Draw(t, "budget")))
	})
}

// FERRUM_TEST_GRID=full raises what is tried.
func TestFullGrid(t *testing.T) {
	t.Setenv(testsize.Env, "")
	for _, g := range []Grid{Pairs, Triples, Values, NoGrid} {
		require.Equal(t, g, g.full())
	}
	t.Setenv(testsize.Env, "full")
	for g, want := range map[Grid]Grid{Pairs: Triples, Triples: Triples, Values: Pairs, NoGrid: Values} {
		require.Equal(t, want, g.full())
	}
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
