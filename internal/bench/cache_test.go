package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Time is that of a clock which moves while a call sleeps and never else.
func TestMeasure(t *testing.T) { synctest.Test(t, testMeasure) }

func testMeasure(t *testing.T) {
	be, err := backend.Open("cpu:threads=1")
	require.NoError(t, err)
	defer be.Close()
	s, err := be.NewStream()
	require.NoError(t, err)
	calls, probes := 0, 0
	call := func(int) error { calls++; time.Sleep(2 * time.Millisecond); return nil }
	// Before and after each call: the limits of the rounds are 7.5, 60 and 6 a second.
	takes := []time.Duration{time.Second / 5, time.Second / 10, time.Second / 100, time.Second / 20, time.Second / 6, time.Second / 6}
	limit := probe{1, func() error { time.Sleep(takes[probes%len(takes)]); probes++; return nil }}
	measured := func(ctx context.Context, call func(int) error, limit probe) (Result, error) {
		m := measurement{clock: HostClock(s), op: &operation{call: call}, limit: limit, limited: true}
		return m.medians(ctx, 0)
	}
	got, err := measured(t.Context(), call, limit)
	require.NoError(t, err)
	require.Equal(t, 1+minRounds, calls, "one to warm up, one a round")
	require.InDelta(t, 2e-3, got.Seconds, 1e-12)
	require.InDelta(t, 7.5, got.Limit, 1e-9, "the median")

	broken := errors.New("broken")
	_, err = measured(t.Context(), func(int) error { return broken }, limit)
	require.ErrorIs(t, err, broken)
	_, err = measured(t.Context(), call, probe{1, func() error { return broken }})
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = measured(ctx, call, limit)
	require.ErrorIs(t, err, context.Canceled)
}

// What was allocated is given back, also where there is no room for all of it.
func TestCacheGivesItsMemoryBack(t *testing.T) {
	be, err := backend.Open("cpu:threads=1")
	require.NoError(t, err)
	defer be.Close()
	s, err := be.NewStream()
	require.NoError(t, err)
	c, err := NewCache(be, s, 1<<20)
	require.NoError(t, err)
	shape := Shape{Act: backend.F16, Stored: backend.F16, QHeads: 4, KVHeads: 2, HeadDim: 32, Batch: 2, Context: 40, BlockSize: 16}
	for _, measure := range []func() (Result, error){
		func() (Result, error) { return c.Attend(t.Context(), shape, 3, time.Millisecond) },
		func() (Result, error) { return c.Append(t.Context(), shape, time.Millisecond) },
	} {
		r, err := measure()
		require.NoError(t, err)
		require.Positive(t, r.Seconds)
		require.Positive(t, r.Limit)
		require.Equal(t, 1, be.Info().Buffers, "that of the limits")
	}
	shape.Batch, shape.Context, shape.BlockSize, shape.QHeads, shape.KVHeads, shape.HeadDim = 64, 1<<20, 0, 64, 64, 256 // terabytes
	_, err = c.Attend(t.Context(), shape, 1, time.Millisecond)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.NoError(t, c.Close())
	require.Zero(t, be.Info().Buffers)
}
