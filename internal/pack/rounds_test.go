package pack

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	require.Equal(t, Spread{5, 5, 5}, spread([]float64{5}))
	require.Equal(t, Spread{2, 1.5, 2.5}, spread([]float64{3, 1}))
	values := []float64{5, 1, 4, 2, 3}
	require.Equal(t, Spread{3, 2, 4}, spread(values))
	require.Equal(t, []float64{5, 1, 4, 2, 3}, values, "they stay in their order")
	require.Equal(t, Spread{2.5, 1.75, 3.25}, spread([]float64{1, 2, 3, 4}))
}

// A device that becomes slower all the time makes no variant slower than the baseline.
func TestDriftIsNoDifference(t *testing.T) {
	f := newFake(nil)
	f.drift = 0.01
	out := runs(t, f, Pack{Variants: []Variant{of("same", long)}})
	s := out.Variants[0].Shapes[0]
	require.InDelta(t, 1, s.Ratio.Median, 1e-9)
	require.Equal(t, leastRounds, s.Runs)
	require.Greater(t, s.VariantUS.Q3, 1.1*s.VariantUS.Q1)
}

// Times that are none are an error of the side that has them. They are not counted, and choose nothing.
func TestSamplesThatAreNoTimes(t *testing.T) {
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-300, 1e300} {
		for _, at := range []int{1, 2, 20} { // the twentieth comes after enough rounds to win
			sample := func(n int) (float64, error) {
				if n == at {
					return bad, nil
				}
				return 1e-4 * (1 + float64(n%3)), nil
			}
			why := fmt.Sprintf("invalid sample: %g s", bad)
			rounds := (at - 1) / 2

			f := newFake(map[string]kernels{"": {ratio: 100, noise: 0.5}, "bad": {sample: sample}})
			out := runs(t, f, Pack{Variants: []Variant{of("bad", long)}})
			require.Empty(t, out.Chosen)
			require.Equal(t, long+": "+why, out.Variants[0].Dropped)
			require.Equal(t, why, out.Variants[0].Shapes[0].Stopped)
			require.Equal(t, rounds, out.Variants[0].Shapes[0].Runs)
			_, err := json.Marshal(out)
			require.NoError(t, err)

			f = newFake(map[string]kernels{"": {sample: sample}, "good": {ratio: 0.01, noise: 0.5}})
			out = runs(t, f, Pack{Variants: []Variant{of("good", long)}})
			require.Equal(t, "baseline: "+why, out.Variants[0].Shapes[0].Stopped)
			require.Equal(t, rounds, out.Variants[0].Shapes[0].Runs)
			require.Equal(t, rounds >= leastRounds, len(out.Chosen) == 1, "what was measured before counts")
			_, err = json.Marshal(out)
			require.NoError(t, err)
		}
	}
}

// Sums in another order are no error, whether the baseline's is exact or coarse.
func TestChecksBesideTheBaseline(t *testing.T) {
	require.NoError(t, Check{Largest: fine}.beside(Check{}))
	require.Error(t, Check{Largest: 1.01 * fine}.beside(Check{}))
	require.NoError(t, Check{Largest: 0.4}.beside(Check{Largest: 0.1}))
	require.Error(t, Check{Largest: 0.41}.beside(Check{Largest: 0.1}))
}
