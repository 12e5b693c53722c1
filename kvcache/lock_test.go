package kvcache

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// unlocked counts how often the host waits for a device from here on, and how often it gives it work, which a
// CPU does at once; each time without the pool's lock.
func unlocked(t *testing.T, r *rig[buffer], dev *lateDevice) (waits, works *int) {
	waits, works = new(int), new(int)
	dev.SetFault(func(c backendtest.Call) error {
		switch {
		case c.Op == backendtest.OpEventSync || c.Op == backendtest.OpSync || c.Op == backendtest.OpDownload:
			*waits++
		case c.Op == backendtest.OpPlanAttend || c.Op.Enqueues() && c.Op != backendtest.OpRecord && c.Op != backendtest.OpWait:
			*works++
		default:
			return nil
		}
		if !r.pool.mu.TryLock() {
			t.Errorf("%s under the pool's lock", c.Op)
			return nil
		}
		r.pool.mu.Unlock()
		return nil
	})
	return waits, works
}

// Whoever waits for the device, for blocks that come back or for scores, or has it work, lets others use the pool.
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
		"shift": {func(r *rig[buffer], a *Sequence[buffer]) error { return a.Shift(r.s, 1, 2) }, 1},
		"gather": {func(r *rig[buffer], a *Sequence[buffer]) error {
			m := r.pool.Config().Model
			k, v := r.vector(r.s, make([]float32, m.KVHeads*20*m.HeadDim)), r.vector(r.s, make([]float32, m.KVHeads*20*m.VHeadDim))
			return errors.Join(a.Gather(r.s, 1, k, v), r.be.Free(k), r.be.Free(v))
		}, 0},
		"layers": {func(r *rig[buffer], a *Sequence[buffer]) error { _, err := a.Layers(r.s); return err }, 0},
		"clear":  {func(r *rig[buffer], a *Sequence[buffer]) error { return a.ClearScores(r.s) }, 0},
		"scores": {func(r *rig[buffer], a *Sequence[buffer]) error {
			return a.Scores(r.s, 0, make([]float32, 2*r.pool.Config().Model.KVHeads*20))
		}, 1},
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
			waits, works := unlocked(t, r, dev)
			require.NoError(t, c.call(r, a))
			require.Equal(t, c.waits, *waits)
			require.Equal(t, name != "reserve", *works > 0)
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

// What works without the lock has its sequence for itself, the pool's books are right meanwhile, and a Close waits
// until it is done.
func TestWorkBesideOthers(t *testing.T) {
	for _, residual := range []int{0, 8} {
		for name, call := range map[string]func(r *rig[buffer], a *Sequence[buffer]) error{
			"plan": func(r *rig[buffer], a *Sequence[buffer]) error {
				return r.plan(r.s, feed[buffer]{a, sequence(100, 20)})
			},
			"shift": func(r *rig[buffer], a *Sequence[buffer]) error { return a.Shift(r.s, 1, 3) },
			"retain": func(r *rig[buffer], a *Sequence[buffer]) error {
				return a.Retain(r.s, [][]int{{0, 3, 17}}, RetainOptions{})
			},
			"clear": func(r *rig[buffer], a *Sequence[buffer]) error { return a.ClearScores(r.s) },
			"scores": func(r *rig[buffer], a *Sequence[buffer]) error {
				return a.Scores(r.s, 0, make([]float32, 2*r.pool.Config().Model.KVHeads*20))
			},
		} {
			t.Run(fmt.Sprint(name, residual), func(t *testing.T) {
				cfg := small(Paged)
				cfg.Memory.Blocks, cfg.Attention.Scores = 40, true
				if residual > 0 {
					cfg.Storage.K, cfg.Storage.V, cfg.Storage.Residual = backend.Int8, backend.Int8, residual
				}
				r, dev, be := lateRig(t, cfg)
				a := r.open()
				require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 20)}))
				other, err := a.Fork()
				require.NoError(t, err)
				closed, met := make(chan error, 1), 0
				dev.SetFault(func(c backendtest.Call) error {
					if !c.Op.Enqueues() || c.Op == backendtest.OpRecord || c.Op == backendtest.OpWait || !r.pool.mu.TryLock() {
						return nil
					}
					r.pool.mu.Unlock()
					if met++; met > 1 {
						return nil
					}
					require.ErrorIs(t, a.Truncate(1), ErrBusy)
					require.NoError(t, r.pool.Check())
					more, err := other.Fork()
					require.NoError(t, err)
					require.NoError(t, more.Release())
					go func() { closed <- r.pool.Close() }()
					for r.pool.open.Load() {
						runtime.Gosched()
					}
					return nil
				})
				require.NoError(t, call(r, a), "it was begun before")
				require.ErrorIs(t, a.Truncate(0), ErrClosed)
				require.NotZero(t, met)
				dev.SetFault(nil)
				require.NoError(t, errors.Join(<-closed, r.s.Sync(), dev.late.Drain()))
				require.Zero(t, be.Info().Buffers)
				require.NoError(t, be.Close())
			})
		}
	}
}

// meanwhile calls f once, while the pool's lock is free for work that is enqueued.
func meanwhile(r *rig[buffer], dev *lateDevice, f func()) {
	met := false
	dev.SetFault(func(c backendtest.Call) error {
		if met || !c.Op.Enqueues() || c.Op == backendtest.OpRecord || c.Op == backendtest.OpWait || !r.pool.mu.TryLock() {
			return nil
		}
		r.pool.mu.Unlock()
		met = true
		f()
		return nil
	})
}

// Who lacks blocks that a Shift holds and will give back waits for them.
func TestPlanWaitsForLentBlocks(t *testing.T) {
	cfg := small(Paged)
	cfg.Storage.K, cfg.Storage.V, cfg.Storage.Residual = backend.Int8, backend.Int8, 8
	cfg.Memory.Blocks, cfg.Memory.MaxSeqs, cfg.Memory.StepTokens = 40, 2, 32
	r, dev, be := lateRig(t, cfg)
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 20)}))
	require.NoError(t, r.step.Reset())
	s2, err := dev.NewStream()
	require.NoError(t, err)
	other := r.pool.NewBatch()
	b := r.open()
	fresh, left := r.pool.parts.All[0].Written, 8
	held, err := fresh.Take(&block.Claim{}, b.runs.In[0].Root, nil, fresh.Stats().Free-left)
	require.NoError(t, err)
	require.NoError(t, other.Add(b, sequence(100, left*cfg.Memory.BlockSize)), "all that there are before and after")
	planned := make(chan error, 1)
	meanwhile(r, dev, func() {
		require.Less(t, fresh.Stats().Free, left, "a Shift takes some")
		go func() { planned <- other.Plan(s2) }()
		time.Sleep(20 * time.Millisecond) // so that it is there before the blocks are back, mostly
	})
	require.NoError(t, a.Shift(r.s, 1, 3))
	require.NoError(t, <-planned)
	dev.SetFault(nil)
	require.NoError(t, errors.Join(other.Reset(), fresh.Retire(nil, held), r.pool.Check(), other.Close(), a.Release(), b.Release(), s2.Close()))
	closeLate(t, r, dev, be)
}

// A step that is being planned is neither reset, closed nor added to.
func TestStepIsLeftAloneWhilePlanned(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	a, b := r.open(), r.open()
	meanwhile(r, dev, func() {
		for _, err := range []error{r.step.Reset(), r.step.Close(), r.step.Add(b, sequence(1, 3)), r.step.Plan(r.s), r.step.Commit()} {
			var refused ErrStep
			require.ErrorAs(t, err, &refused)
		}
		require.NoError(t, r.pool.Check())
	})
	require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(1, 9)}))
	dev.SetFault(nil)
	require.NoError(t, errors.Join(r.step.Reset(), r.pool.Check(), a.Release(), b.Release()))
	closeLate(t, r, dev, be)
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
