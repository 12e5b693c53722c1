package bench

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

func samplesOf(seconds ...float64) (out []sample) {
	for _, s := range seconds {
		out = append(out, sample{seconds: s, limit: 10})
	}
	return out
}

func TestMetrics(t *testing.T) {
	other := &trial{samples: samplesOf(8, 8, 8, 8, 8, 8, 8)}
	own := &trial{work: work{flops: 60, bytes: 20}, measurement: measurement{limited: true},
		samples: samplesOf(4, 4, 100, 4, 4, 8, 4), against: []comparison{speed(other, "f16"), speed(&trial{}, "plain")}}
	own.samples[2].foreign = 0.5
	require.Equal(t, map[string]float64{"ns/op": 4e9, "GB/s": 20e-9 / 4, "flop/B": 3, "of-limit": 20. / 4 / 10, "speed-of-f16": 2,
		"rounds": 6, "dirty": 0}, own.metrics(), "what was not measured is not compared with")
}

func TestCleanRoundsCount(t *testing.T) {
	a, b := samplesOf(1, 1, 1, 1, 1, 1, 1), samplesOf(1, 1, 1, 1, 1, 1, 1)
	a[0].foreign, b[6].foreign = 0.2, 0.3
	rounds, foreign := clean(a, b)
	require.Equal(t, []int{1, 2, 3, 4, 5}, rounds)
	require.Zero(t, foreign)
	b[3].foreign = 0.16
	rounds, foreign = clean(a, b)
	require.Len(t, rounds, 7, "too few clean ones: all count")
	require.Equal(t, 3, foreign)
	a[0].foreign = 0.1
	rounds, foreign = clean(a[:2])
	require.Equal(t, []int{0, 1}, rounds, "two rounds in all")
	require.Zero(t, foreign)
}

func TestMedian(t *testing.T) {
	values := []float64{9, 1, 5, 2}
	over4 := func(rounds ...int) float64 { return over(rounds, func(i int) float64 { return values[i] }) }
	require.Equal(t, 3.5, over4(0, 1, 2, 3))
	require.Equal(t, 5., over4(2, 0, 1))
	require.Equal(t, 2., median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, median([]float64{4, 1, 3, 2}))
}

func TestForeignTime(t *testing.T) {
	start := clock{used: 10, all: 100, own: 1}
	require.InEpsilon(t, 0.25, start.shared(clock{used: 17, all: 120, own: 3}), 1e-9)
	require.Zero(t, start.shared(clock{used: 11, all: 120, own: 3}), "what is its own counts more finely than ticks")
	require.Zero(t, start.shared(start))
}

func TestChosenTrials(t *testing.T) {
	all := chosen("CPU")
	require.True(t, all("decode/f16/threads=1"))
	some := chosen("CPU/^(limit|decode)$/16/8")
	require.True(t, some("decode/bf16/threads=8"))
	require.False(t, some("decode/f32/threads=8"))
	require.False(t, some("decode/f16/threads=1"))
	require.True(t, some("limit/16"), "as long as the pattern goes")
}

// All kinds of trials run, on small shapes, and say something of themselves.
func TestTrialsRun(t *testing.T) {
	if race.Enabled {
		t.Skip("arithmetic is ten times slower under the race detector")
	}
	few := regexp.MustCompile(`^(limit|dispatch|(append|gather|copyblocks|convertblocks|rotate)/.*threads=1|decode/(f16|int4|int8\+|f16\+).*batch=1/context=512.*threads=1|prefill/f16/contiguous/batch=1/context=512)`)
	r, err := newProcessor(true, few.MatchString)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.close()) }()
	require.NoError(t, r.run())
	require.Greater(t, len(r.trials), 20)
	for _, trial := range r.trials {
		got := trial.metrics()
		require.Len(t, trial.samples, 2, trial)
		require.Positive(t, got["ns/op"], trial)
		if trial.work.bound != unbounded && trial.limited {
			require.Positive(t, got["of-limit"], trial)
		}
	}
}
