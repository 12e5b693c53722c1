package metrics_test

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
)

func TestHistogram(t *testing.T) {
	h := metrics.NewHistogram(1, 0.5, math.NaN(), math.Inf(1), 0.5)
	for _, v := range []float64{-3, 0.5, 0.6, 1, 1.5, math.Inf(1), math.Inf(-1), math.NaN()} {
		h.Observe(v)
	}
	d := h.Snapshot()
	require.InDelta(t, 0.6, d.Sum, 1e-9)
	d.Sum = 0
	require.Equal(t, metrics.Distribution{Bounds: []float64{0.5, 1}, Counts: []uint64{2, 2, 1}}, d)
	require.Equal(t, uint64(5), d.Count())
	h.Observe(0)
	require.Equal(t, uint64(5), d.Count(), "a snapshot does not change")

	var zero metrics.Histogram
	require.Equal(t, metrics.Distribution{Counts: []uint64{0}}, zero.Snapshot())
	zero.Observe(2)
	require.Equal(t, metrics.Distribution{Counts: []uint64{1}, Sum: 2}, zero.Snapshot())
	require.Zero(t, testing.AllocsPerRun(10, func() { h.Observe(0.7) }))
}

// The sum of a snapshot is that of its counts, while others observe.
func TestHistogramSnapshotsAreConsistent(t *testing.T) {
	h := metrics.NewHistogram(1)
	var observers sync.WaitGroup
	for _, v := range []float64{1, 1000} {
		observers.Go(func() {
			for range 5000 {
				h.Observe(v)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		observers.Wait()
	}()
	check := func() metrics.Distribution {
		d := h.Snapshot()
		require.Equal(t, float64(d.Counts[0])+1000*float64(d.Counts[1]), d.Sum)
		return d
	}
	for running := true; running; check() {
		select {
		case <-done:
			running = false
		default:
		}
	}
	require.Equal(t, uint64(10000), check().Count())
}

func BenchmarkObserve(b *testing.B) {
	h := metrics.NewHistogram(0.001, 0.01, 0.1, 1, 10)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.Observe(0.05)
		}
	})
}
