package tier_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// A call that fails costs its job and nothing else: the mover goes on, the other tier has its part, memory returns, a counter moves.
func TestFailuresEndOneJob(t *testing.T) {
	for _, c := range []struct {
		name    string
		hook    func(context.Context, string) error
		counter func(s tier.TierMoves) int64
		is      func(err error) bool
	}{
		{"error", func(context.Context, string) error { return errDisk },
			func(s tier.TierMoves) int64 { return s.Errors }, func(err error) bool { return errors.Is(err, errDisk) }},
		{"panic", func(context.Context, string) error { panic("index out of range") },
			func(s tier.TierMoves) int64 { return s.Panics },
			func(err error) bool {
				var p tier.ErrPanic
				return errors.As(err, &p) && p.Value == "index out of range" && p.Stack != ""
			}},
		{"closed", func(context.Context, string) error { return tier.ErrClosed{Name: "low"} },
			func(s tier.TierMoves) int64 { return s.Errors }, func(err error) bool { return errors.As(err, new(tier.ErrClosed)) }},
		{"slow", func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
			func(s tier.TierMoves) int64 { return s.Timeouts }, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulated(t, tier.MoverOptions{Workers: 1}, func(r *rig) {
				a := chain("a", 4)
				require.Equal(t, 4, r.put(a).Blocks)
				require.NoError(t, r.fast.Delete(ctx, keys(a[2:])))
				r.low.set(c.hook)
				res := r.get(a)
				require.Equal(t, []int{2, 0}, res.By)
				require.True(t, c.is(res.Err), "%v", res.Err)
				res = r.put(a)
				require.Equal(t, []int{4, 0}, res.By)
				require.Equal(t, 4, res.Blocks)
				require.True(t, c.is(res.Err), "%v", res.Err)
				require.Equal(t, int64(2), c.counter(r.Stats().Tiers[1]))
				require.Equal(t, 2, r.Stats().Tiers[1].ConsecutiveFailures)
				require.Equal(t, tier.Result{Blocks: 4, By: []int{4, 0}}, r.get(a), "the other tier has it all")
				require.NoError(t, r.fast.Clear(ctx, tier.Key{}))
				r.low.set(nil)
				require.Equal(t, tier.Result{Blocks: 4, By: []int{0, 4}}, r.get(a))
				require.Zero(t, r.Stats().Tiers[1].ConsecutiveFailures)
			})
		})
	}
}

// Counts that cannot be are failures; the blocks are misses.
func TestWrongCounts(t *testing.T) {
	simulated(t, tier.MoverOptions{Failures: 10}, func(r *rig) {
		a := chain("a", 4)
		require.Equal(t, 4, r.put(a).Blocks)
		for i, wrong := range []int{-1, 5, math.MaxInt} {
			r.fast.count = func(string, int) int { return wrong }
			res := r.get(a)
			require.Equal(t, []int{0, 4}, res.By)
			require.NoError(t, res.Err)
			places, err := r.Has(ctx, keys(a))
			require.NoError(t, err)
			require.Equal(t, []tier.Place{{Tier: 1, Blocks: 4}}, places)
			require.Equal(t, int64(2*i+2), r.Stats().Tiers[0].Wrong)
		}
	})
}

// A payload of another length is a miss in each tier.
func TestPayloadsOfAnotherLength(t *testing.T) {
	simulated(t, tier.MoverOptions{}, func(r *rig) {
		a := chain("a", 4)
		require.Equal(t, 4, r.put(a).Blocks)
		longer := chain("a", 4)
		longer[2].Bytes = make([]byte, size+1)
		m := r.submit(ctx, true, 0, longer)
		require.Equal(t, tier.Result{Blocks: 2, By: []int{2, 0}}, m.result())
	})
}

// After some failures in a row a tier is left alone for a pause, which grows with each failed trial.
func TestBreaker(t *testing.T) {
	simulated(t, tier.MoverOptions{Failures: 3, Pause: time.Second, Longest: 3 * time.Second}, func(r *rig) {
		a := chain("a", 2)
		require.NoError(t, r.low.Put(ctx, a))
		calls := func() int { return len(r.low.calls) }
		begin := calls()
		r.low.set(func(context.Context, string) error { return errDisk })
		for i := range 3 {
			require.False(t, r.Stats().Tiers[1].Paused)
			require.ErrorIs(t, r.get(a).Err, errDisk)
			require.Equal(t, begin+1+i, calls())
		}
		for _, pause := range []time.Duration{1, 2, 3, 3} {
			require.True(t, r.Stats().Tiers[1].Paused)
			require.ErrorAs(t, r.get(a).Err, &tier.ErrRefused{})
			places, err := r.Has(ctx, keys(a))
			require.NoError(t, err)
			require.Empty(t, places)
			n := calls()
			after(pause*time.Second - 1)
			require.ErrorAs(t, r.get(a).Err, &tier.ErrRefused{})
			require.Equal(t, n, calls(), "no calls in the pause of %d s", pause)
			after(1)
			require.ErrorIs(t, r.get(a).Err, errDisk, "a trial")
			require.Equal(t, n+1, calls())
		}
		require.Equal(t, int64(5), r.Stats().Tiers[1].Pauses)
		require.Equal(t, int64(12), r.Stats().Tiers[1].Refused)

		// One trial at a time. One that nobody waited for decides nothing.
		after(3 * time.Second)
		hook, open := gate("get")
		r.low.set(hook)
		during, cancel := context.WithCancel(ctx)
		trial := r.submit(during, true, 0, a)
		synctest.Wait()
		require.ErrorAs(t, r.get(a).Err, &tier.ErrRefused{})
		cancel()
		require.ErrorIs(t, trial.result().Err, context.Canceled)
		trial = r.submit(ctx, true, 0, a)
		synctest.Wait()
		require.ErrorAs(t, r.get(a).Err, &tier.ErrRefused{})
		open()
		require.Equal(t, 2, trial.result().Blocks)
		require.Equal(t, 2, r.get(a).Blocks, "the tier is back")
		require.Zero(t, r.Stats().Tiers[1].ConsecutiveFailures)

		// Clear is tried even in a pause: what others may not see goes, or the caller knows that it did not.
		r.low.set(func(context.Context, string) error { return errDisk })
		for range 3 {
			r.get(a)
		}
		require.ErrorIs(t, r.Clear(ctx, a[0].Root), errDisk)
		r.low.set(nil)
		require.NoError(t, r.Clear(ctx, a[0].Root))
		n, err := r.low.Has(ctx, keys(a))
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// A call that ignores the end of its context does not keep its job, nor a worker. What it was lent is released when it returns.
func TestHangingCalls(t *testing.T) {
	for _, op := range []string{"get", "put"} {
		simulated(t, tier.MoverOptions{Workers: 1, Timeout: 10 * time.Second, Grace: time.Second, Bytes: 8 * size}, func(r *rig) {
			a := chain("a", 4)
			if op == "get" {
				require.NoError(t, r.low.Put(ctx, a))
			}
			hook, open := stubborn(op)
			r.low.set(hook)
			begin := time.Now()
			m := r.submit(ctx, op == "get", 1, a)
			behind := r.submit(ctx, op == "get", 1, a[:1]) // waits for the worker, and for its sequence
			res := m.result()
			require.ErrorAs(t, res.Err, &tier.ErrHung{})
			require.Equal(t, 11*time.Second, time.Since(begin))
			if op == "put" {
				require.Equal(t, []int{4, 0}, res.By, "the other tier has it")
			}
			require.ErrorAs(t, behind.result().Err, &tier.ErrRefused{}, "one call that hangs is enough")
			<-behind.released
			s := r.Stats()
			require.Equal(t, int64(4*size), s.InFlight, "the call may still use it")
			require.Equal(t, 1, s.Jobs)
			require.Equal(t, []int64{1, 0}, []int64{s.Tiers[1].Hung, s.Tiers[1].Timeouts})
			require.Equal(t, 1, s.Tiers[1].Hanging)
			require.True(t, s.Tiers[1].Paused)
			after(time.Hour)
			require.NotContains(t, fmt.Sprint(r.get(a[:1]).Err), "hangs")
			require.Len(t, m.done, 0)
			select {
			case <-m.released:
				t.Fatal("released, and in use")
			default:
			}
			require.ErrorIs(t, r.Drain(expired()), context.DeadlineExceeded)
			open()
			<-m.released
			require.NoError(t, r.Drain(ctx))
			require.Zero(t, r.Stats().InFlight)
			require.Zero(t, r.Stats().Tiers[1].Hanging)
			require.NoError(t, r.low.Put(ctx, a))
			require.NoError(t, r.fast.Clear(ctx, tier.Key{}))
			require.Equal(t, 4, r.get(a).Blocks, "the tier is back")
		})
	}
}

func expired() context.Context {
	c, cancel := context.WithTimeout(ctx, 0)
	cancel()
	return c
}

// Who asks what tiers have waits no longer than his context lives, and questions that hang together are one failure.
func TestQuestionsThatHangTogether(t *testing.T) {
	simulated(t, tier.MoverOptions{Grace: time.Second, Timeout: time.Minute}, func(r *rig) {
		a := chain("a", 2)
		require.Equal(t, 2, r.put(a).Blocks)
		hook, open := stubborn("has")
		r.fast.set(hook)
		for range 3 {
			begin := time.Now()
			late, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			places, err := r.Has(late, keys(a))
			cancel()
			require.NoError(t, err)
			require.Equal(t, []tier.Place{{Tier: 1, Blocks: 2}}, places, "the other one answers")
			require.Equal(t, 25*time.Millisecond, time.Since(begin))
		}
		after(2 * time.Second)
		s := r.Stats().Tiers[0]
		require.Equal(t, []int{3, 1}, []int{s.Hanging, s.ConsecutiveFailures})
		open()
		after(time.Hour)
		places, err := r.Has(ctx, keys(a))
		require.NoError(t, err)
		require.Equal(t, []tier.Place{{Tier: 0, Blocks: 2}}, places)
		require.Zero(t, r.Stats().Tiers[0].ConsecutiveFailures)
	})
}

// A deadline holds for a tier that hangs, but for the grace. Has, Delete, Clear and Close wait no longer either.
func TestNobodyWaitsForATierThatHangs(t *testing.T) {
	simulated(t, tier.MoverOptions{Grace: time.Second, Timeout: time.Minute}, func(r *rig) {
		a := chain("a", 2)
		hook, open := stubborn("get")
		r.fast.set(hook)
		late, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		m := r.submit(late, true, 0, a)
		require.ErrorAs(t, m.result().Err, &tier.ErrHung{})
		require.Equal(t, 1050*time.Millisecond, time.Since(begin))

		// Its buffers may be written to, but that is not what Clear promises about.
		begin = time.Now()
		require.ErrorAs(t, r.Clear(ctx, tier.Key{}), &tier.ErrHung{})
		require.Zero(t, time.Since(begin))
		places, err := r.Has(ctx, keys(a))
		require.NoError(t, err)
		require.Empty(t, places)

		var hung tier.ErrHung
		require.ErrorAs(t, r.Close(), &hung)
		require.Equal(t, "fast", hung.Name)
		open()
		<-m.released
		synctest.Wait()
	})
	for _, op := range []string{"has", "delete", "clear"} {
		simulated(t, tier.MoverOptions{Grace: time.Second, Timeout: time.Minute}, func(r *rig) {
			a := chain("a", 2)
			require.Equal(t, 2, r.put(a).Blocks)
			hook, open := stubborn(op)
			r.fast.set(hook)
			begin := time.Now()
			switch op {
			case "has":
				places, err := r.Has(ctx, keys(a))
				require.NoError(t, err)
				require.Equal(t, []tier.Place{{Tier: 1, Blocks: 2}}, places)
			case "delete":
				require.ErrorAs(t, r.Delete(ctx, keys(a)), &tier.ErrHung{})
			default:
				require.ErrorAs(t, r.Clear(ctx, a[0].Root), &tier.ErrHung{})
			}
			require.Equal(t, 61*time.Second, time.Since(begin))
			n, err := r.low.Has(ctx, keys(a))
			require.NoError(t, err)
			require.Equal(t, op == "has", n == 2, "the other tier did it")
			require.ErrorAs(t, r.Drain(ctx), &tier.ErrHung{}, "which does not wait for it either")
			open()
			synctest.Wait()
			require.NoError(t, r.Drain(ctx))
		})
	}
}
