package evict

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func sum(budgets []int) (n int) {
	for _, b := range budgets {
		n += b
	}
	return n
}

func TestPyramidBudgets(t *testing.T) {
	for _, c := range []struct {
		policy        PyramidKV
		total, layers int
		want          []int
	}{
		{PyramidKV{}, 1000, 4, []int{400, 300, 200, 100}}, // as in the seed
		{PyramidKV{}, 1001, 4, []int{401, 300, 200, 100}},
		{PyramidKV{}, 7, 1, []int{7}},
		{PyramidKV{}, 3, 5, []int{2, 1, 0, 0, 0}},
		{PyramidKV{}, 0, 2, []int{0, 0}},
		{PyramidKV{Beta: 1}, 1000, 4, []int{250, 250, 250, 250}},
		{PyramidKV{Beta: 20}, 4000, 5, []int{1560, 1180, 800, 420, 40}}, // 2·800 − 40 … 40
		{PyramidKV{SnapKV: SnapKV{Sinks: 4, Window: 156}}, 1000, 4, []int{340, 280, 220, 160}},
		{PyramidKV{SnapKV: SnapKV{Sinks: 400, Window: 600}}, 1003, 4, []int{252, 251, 250, 250}},
	} {
		require.Equal(t, c.want, c.policy.Budgets(nil, c.total, c.layers), "%s: %d over %d", c.policy, c.total, c.layers)
	}
	last := PyramidKV{}.Budgets(nil, 1000, 32) // the seed's added up to 1015
	require.Equal(t, []int{61, 59, 57, 55}, last[:4])
	require.Equal(t, 1000, sum(last))
}

// Whatever is divided, the sum is exact and no layer has more than one before it; where
// there is enough for all, each has what is protected, or an equal share of the total.
func TestBudgetsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		layers := rapid.OneOf(rapid.IntRange(1, 6), rapid.IntRange(1, 200)).Draw(t, "layers")
		total := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 1<<20), rapid.IntRange(0, math.MaxInt)).Draw(t, "total")
		budgets := p.Budgets([]int{7}, total, layers)
		require.Equal(t, 7, budgets[0])
		budgets = budgets[1:]
		require.Len(t, budgets, layers)
		require.Equal(t, total, sum(budgets))
		for i := range layers - 1 {
			require.GreaterOrEqual(t, budgets[i], budgets[i+1])
		}
		require.GreaterOrEqual(t, slices.Min(budgets), 0)
		pyramid, ok := p.(PyramidKV)
		if !ok {
			require.LessOrEqual(t, budgets[0]-budgets[layers-1], 1, "%s divides evenly", p)
			return
		}
		least := min(max(pyramid.Sinks+pyramid.Window, 1), total/layers)
		require.GreaterOrEqual(t, budgets[layers-1], least)
		fall := budgets[0] - budgets[layers-1]
		for i, b := range budgets {
			require.Equal(t, b, pyramid.Budget(total, i, layers))
			line := float64(budgets[0]) - float64(i)*float64(fall)/float64(max(layers-1, 1))
			require.InDelta(t, line, b, 2+float64(total)*1e-15, "layer %d of %d is on the line", i, layers)
		}
	})
}

// A layer that there is not has no budget, and no number of layers is too large.
func TestBudgetOfNoLayer(t *testing.T) {
	for _, c := range [][2]int{{0, 0}, {3, 3}, {4, 3}, {-1, 3}, {0, -1}, {math.MaxInt, math.MaxInt}, {math.MinInt, 3}} {
		require.Zero(t, PyramidKV{}.Budget(100, c[0], c[1]), c)
	}
	require.Zero(t, PyramidKV{}.Budget(-1, 0, 3))
	require.Equal(t, 1, PyramidKV{}.Budget(100, 99, math.MaxInt))
	require.Zero(t, PyramidKV{}.Budget(100, 100, math.MaxInt))
	require.Equal(t, math.MaxInt, PyramidKV{Beta: maxBeta}.Budget(math.MaxInt, 0, 1))
	require.Positive(t, PyramidKV{Beta: math.MaxInt}.Budget(math.MaxInt, 0, maxLayers))
}
