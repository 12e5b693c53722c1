package kvcache

import (
	"errors"
	"runtime"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/stretchr/testify/require"
)

// waits counts how often the host waits for a device from here on, each time without the pool's lock.
func waits(t *testing.T, r *rig[buffer], dev *lateDevice) *int {
	n := 0
	dev.SetFault(func(c backendtest.Call) error {
		switch c.Op {
		case backendtest.OpEventSync, backendtest.OpSync, backendtest.OpDownload:
			n++
			if !r.pool.mu.TryLock() {
				t.Errorf("%s under the pool's lock", c.Op)
				return nil
			}
			r.pool.mu.Unlock()
		}
		return nil
	})
	return &n
}

// Whoever waits for the device, for blocks that come back or for scores, lets others use the pool.
func TestNobodyWaitsUnderTheLock(t *testing.T) {
	for name, c := range map[string]struct {
		call  func(r *rig[buffer], a *Sequence[buffer]) error
		waits int
	}{
		"plan": {func(r *rig[buffer], a *Sequence[buffer]) error {
			return r.plan(r.s, feed[buffer]{a, sequence(100, 20)})
		}, 1},
		"reserve": {func(r *rig[buffer], a *Sequence[buffer]) error {
			return r.pool.Reserve(Reservation[buffer]{a, 40})
		}, 1},
		"retain": {func(r *rig[buffer], a *Sequence[buffer]) error {
			return a.Retain(r.s, [][]int{append([]int{0}, counted(2, 20)...)}, RetainOptions{})
		}, 1},
		"shift":  {func(r *rig[buffer], a *Sequence[buffer]) error { return a.Shift(r.s, 1, 2) }, 1},
		"scores": {func(r *rig[buffer], a *Sequence[buffer]) error { return a.Scores(r.s, 0, make([]float32, 2*2*20)) }, 1},
		"reset": {func(r *rig[buffer], a *Sequence[buffer]) error {
			return errors.Join(r.pool.Reserve(Reservation[buffer]{a, 24}), r.plan(r.s, feed[buffer]{a, sequence(100, 1)}), r.step.Reset())
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(Paged)
			cfg.Memory.Blocks, cfg.Attention.Scores = 10, true
			r, dev, be := lateRig(t, cfg)
			a, b := r.open(), r.open()
			require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 20)}))
			other, err := a.Fork()
			require.NoError(t, err)
			if name != "reset" {
				require.NoError(t, r.feed(feed[buffer]{b, sequence(50, 20)}))
			}
			require.NoError(t, b.Release())
			n := waits(t, r, dev)
			require.NoError(t, c.call(r, a))
			require.Equal(t, c.waits, *n)
			dev.SetFault(nil)
			require.NoError(t, errors.Join(r.step.Reset(), a.Release(), other.Release()))
			closeLate(t, r, dev, be)
		})
	}
}

// counted are the numbers from one on before another.
func counted(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// A pool that is closed while a step waits for blocks tells the step so.
func TestCloseWhileAStepWaits(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 10
	r, dev, be := lateRig(t, cfg)
	a, b := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 30)}))
	require.NoError(t, a.Release())
	require.NoError(t, r.step.Reset())
	closed := make(chan error, 1)
	dev.SetFault(func(c backendtest.Call) error {
		if c.Op == backendtest.OpEventSync {
			dev.SetFault(nil)
			go func() { closed <- r.pool.Close() }()
			for r.pool.open.Load() {
				runtime.Gosched()
			}
		}
		return nil
	})
	require.ErrorIs(t, r.plan(r.s, feed[buffer]{b, sequence(1, 40)}), ErrClosed)
	require.NoError(t, errors.Join(<-closed, r.s.Sync(), dev.late.Drain()))
	require.Zero(t, be.Info().Buffers)
	require.NoError(t, be.Close())
}

// What a step that was abandoned gives back is promised to its sequence while it is on its way: others
// do not get it, and to reserve it again sets no more aside.
func TestReservationOutlivesALateStep(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 6
	r, dev, be := lateRig(t, cfg)
	a, b := r.open(), r.open()
	reserve := func() error { return r.pool.Reserve(Reservation[buffer]{a, 16}) }
	require.NoError(t, reserve())
	for range 3 {
		require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(1, 9)}))
		require.NoError(t, r.step.Reset())
		require.NoError(t, reserve())
	}
	require.Equal(t, 6, r.stats().Held, "steps are still on the device")
	require.ErrorIs(t, r.plan(r.s, feed[buffer]{b, sequence(1, 12)}), ErrOutOfBlocks{Need: 3, Free: 2})
	require.Equal(t, 4, r.stats().Reserved)
	require.NoError(t, r.plan(r.s, feed[buffer]{b, sequence(1, 8)}))
	require.NoError(t, errors.Join(r.step.Reset(), r.feed(feed[buffer]{a, sequence(1, 16)}), a.Release(), b.Release()))
	closeLate(t, r, dev, be)
}
