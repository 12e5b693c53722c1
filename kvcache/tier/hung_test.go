package tier_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// A slow call holds its worker for a second at most. Its tier gets no other of its kind, and what it was lent is reported as late, once.
func TestLateCallsKeepNoWorker(t *testing.T) {
	for _, op := range []string{"get", "put"} {
		simulated(t, tier.MoverOptions{Workers: 2, Timeout: time.Minute}, func(r *rig) {
			a, b := chain("a", 4), chain("b", 3)
			require.NoError(t, errors.Join(r.low.Put(ctx, a), r.low.Put(ctx, b), r.fast.Put(ctx, b)))
			hook, open := stubborn(op)
			r.low.set(hook)
			late := make(chan time.Duration, 10)
			begin := time.Now()
			say := func(j *tier.Job) { j.Late = func() { late <- time.Since(begin) } }
			first := r.submitJob(op == "get", a, say)
			second := r.submitJob(op == "get", a, say)
			next := r.submit(ctx, op == "get", 0, b[:2]) // waits for a worker
			res := next.result()
			require.Equal(t, 2, res.Blocks, "from the other tier")
			require.Equal(t, time.Second, time.Since(begin))
			if op == "put" {
				require.ErrorAs(t, res.Err, &tier.ErrRefused{})
			}
			after(10 * time.Second)
			n := 2
			if op == "put" {
				n = 1 // a worker is kept for loads: the second one finds the tier late
			}
			require.Len(t, late, n)
			require.Equal(t, time.Second, <-late)
			s := r.Stats().Tiers[1]
			require.Equal(t, []int{n, 0}, []int{s.Late, s.Hanging})
			other := r.submit(ctx, op != "get", 0, b)
			require.Equal(t, 3, other.result().Blocks, "calls of the other kind are made")
			open()
			first.result()
			second.result()
			synctest.Wait()
			require.Zero(t, r.Stats().Tiers[1].Late)
		})
	}
}

// A tier whose last call was late gets one at a time, for which nothing waits, until one is in time.
func TestSlowTiersKeepNobody(t *testing.T) {
	simulated(t, tier.MoverOptions{Workers: 1}, func(r *rig) {
		a := chain("a", 3)
		takes := 2 * time.Second
		r.low.set(func(_ context.Context, op string) error {
			if op == "put" {
				time.Sleep(takes)
			}
			return nil
		})
		r.put(a[:1])
		late := 0
		begin := time.Now()
		slow := r.submitJob(false, a[:2], func(j *tier.Job) { j.Late = func() { late++ } })
		synctest.Wait()
		require.Equal(t, 1, late, "at once")
		require.Equal(t, []int{3, 0}, r.put(a).By, "another one is not made")
		require.Zero(t, time.Since(begin))
		require.Equal(t, []int{2, 2}, slow.result().By)
		takes = 0
		require.Equal(t, []int{2, 2}, r.put(a[:2]).By)
		takes = time.Millisecond
		last := r.submitJob(false, a, func(j *tier.Job) { j.Late = func() { late++ } })
		require.Equal(t, []int{3, 3}, last.result().By)
		require.Equal(t, 1, late, "it was in time")
	})
}

// A store goes into all tiers at once: one that hangs does not delay those after it.
func TestStoresAreNotHeldUpByATier(t *testing.T) {
	simulated(t, tier.MoverOptions{Timeout: time.Minute, Grace: time.Second}, func(r *rig) {
		a := chain("a", 3)
		hook, open := stubborn("put")
		r.fast.set(hook)
		m := r.submit(ctx, false, 0, a)
		synctest.Wait()
		n, err := r.low.Has(ctx, keys(a))
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.False(t, m.isDone())
		after(61 * time.Second)
		require.Equal(t, []int{0, 3}, m.result().By)
		require.ErrorAs(t, r.Drain(ctx), &tier.ErrHung{})
		open()
		<-m.released
	})
	simulated(t, tier.MoverOptions{Timeout: time.Minute, Grace: time.Second}, func(r *rig) { // all of them, and Close abandons them
		hook, open := stubborn("put")
		r.fast.set(hook)
		r.low.set(hook)
		require.True(t, r.Takes())
		m := r.submit(ctx, false, 0, chain("a", 3))
		after(2 * time.Second)
		require.False(t, r.Takes())
		begin := time.Now()
		err := r.Close()
		require.Equal(t, time.Second, time.Since(begin))
		require.ErrorContains(t, err, "fast")
		require.ErrorContains(t, err, "low")
		require.ErrorAs(t, m.result().Err, &tier.ErrHung{})
		open()
		<-m.released
		synctest.Wait()
	})
}

// Blocks are read where Has found them: a tier that hangs, and does not have them, is not asked. One that is gone there is looked for in the others.
func TestLoadsAreReadWhereTheyAre(t *testing.T) {
	simulated(t, tier.MoverOptions{}, func(r *rig) {
		a := chain("a", 4)
		require.NoError(t, r.low.Put(ctx, a))
		places, err := r.Has(ctx, keys(a))
		require.NoError(t, err)
		hook, open := stubborn("get")
		r.fast.set(hook)
		begin := time.Now()
		m := r.submitJob(true, a, func(j *tier.Job) { j.Places = places })
		require.Equal(t, []int{0, 4}, m.result().By)
		require.Zero(t, time.Since(begin))
		open()
		r.fast.set(nil)
		require.NoError(t, errors.Join(r.fast.Put(ctx, a), r.low.Clear(ctx, tier.Key{})))
		require.Equal(t, []int{4, 0}, r.submitJob(true, a, func(j *tier.Job) { j.Places = places }).result().By)
		for _, wrong := range [][]tier.Place{{{Tier: 7, Blocks: 4}}, {{Tier: -1, Blocks: 9}}, {{Tier: 1, Blocks: -3}}} {
			require.Equal(t, []int{4, 0}, r.submitJob(true, a, func(j *tier.Job) { j.Places = wrong }).result().By)
		}
	})
}

// Calls of Delete and Clear hang one at a time: others fail at once, with an error.
func TestForgettingHangsOnce(t *testing.T) {
	simulated(t, tier.MoverOptions{Timeout: time.Minute, Grace: time.Second}, func(r *rig) {
		a := chain("a", 2)
		hook, open := stubborn("clear")
		r.fast.set(hook)
		r.low.set(hook)
		begin := time.Now()
		require.ErrorAs(t, r.Clear(ctx, a[0].Root), &tier.ErrHung{})
		require.Equal(t, 61*time.Second, time.Since(begin), "all tiers at once")
		for range 10 {
			require.ErrorAs(t, r.Clear(ctx, a[0].Root), &tier.ErrHung{})
			require.ErrorAs(t, r.Delete(ctx, keys(a)), &tier.ErrHung{})
		}
		require.Equal(t, 61*time.Second, time.Since(begin))
		require.Equal(t, 1, r.Stats().Tiers[0].Hanging)
		open()
		synctest.Wait()
		require.NoError(t, r.Clear(ctx, a[0].Root))
	})
}

// Abandoned calls of Has are bounded.
func TestQuestionsAreBounded(t *testing.T) {
	simulated(t, tier.MoverOptions{Slow: time.Hour, Timeout: time.Hour, Grace: time.Hour}, func(r *rig) {
		a := chain("a", 1)
		hook, open := stubborn("has")
		r.fast.set(hook)
		for range 300 {
			soon, cancel := context.WithTimeout(ctx, time.Millisecond)
			_, err := r.Has(soon, keys(a))
			cancel()
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Len(t, r.fast.calls, 256)
		open()
		synctest.Wait()
		require.Zero(t, r.Stats().Jobs)
	})
}
