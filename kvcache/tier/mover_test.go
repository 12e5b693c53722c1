package tier_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

func TestMoverOptions(t *testing.T) {
	r := newRig(t, tier.MoverOptions{})
	_, err := tier.NewMover(nil, tier.MoverOptions{})
	require.ErrorAs(t, err, &tier.ErrConfig{})
	_, err = tier.NewMover([]tier.Tier{r.fast}, tier.MoverOptions{Workers: -1})
	require.ErrorAs(t, err, &tier.ErrConfig{})
	_, err = tier.NewMover([]tier.Tier{r.fast, r.low, r.fast}, tier.MoverOptions{})
	require.ErrorContains(t, err, "two tiers with the name fast")
	r.finish()
}

// A result is the longest beginning that the tiers have together.
func TestLoadTakesTheLongestPrefix(t *testing.T) {
	simulated(t, tier.MoverOptions{}, func(r *rig) {
		a := chain("a", 10)
		require.NoError(t, r.fast.Put(ctx, a[:3]))
		require.NoError(t, r.low.Put(ctx, a[:7]))
		require.NoError(t, r.low.Put(ctx, a[8:]))
		require.Equal(t, tier.Result{Blocks: 7, By: []int{3, 4}}, r.get(a))
		require.Equal(t, tier.Result{Blocks: 2, By: []int{2, 0}}, r.get(a[:2]))
		require.Equal(t, tier.Result{Blocks: 0, By: []int{0, 0}}, r.get(chain("b", 2)))
		require.Equal(t, tier.Result{Blocks: 0, By: []int{0, 0}}, r.get(nil))
		places, err := r.Has(ctx, keys(a))
		require.NoError(t, err)
		require.Equal(t, []tier.Place{{Tier: 0, Blocks: 3}, {Tier: 1, Blocks: 4}}, places)

		b := chain("c", 8) // by turns
		require.NoError(t, r.fast.Put(ctx, slices.Concat(b[:2], b[4:6])))
		require.NoError(t, r.low.Put(ctx, slices.Concat(b[2:4], b[6:7])))
		require.Equal(t, tier.Result{Blocks: 7, By: []int{4, 3}}, r.get(b))
		places, err = r.Has(ctx, keys(b))
		require.NoError(t, err)
		require.Equal(t, []tier.Place{{0, 2}, {1, 2}, {0, 2}, {1, 1}}, places)

		s := r.Stats()
		require.Equal(t, int64(5), s.Loads)
		require.Equal(t, []int64{9, 7}, []int64{s.Tiers[0].Loaded, s.Tiers[1].Loaded})
		require.Equal(t, int64(7*size), s.Tiers[1].LoadedBytes)
	})
}

// What a lower tier had is put into those above, once, and what is there is not copied again.
func TestPromotion(t *testing.T) {
	for _, promote := range []bool{true, false} {
		observed := 0
		o := tier.MoverOptions{Promote: promote, Observe: func(_ int, bytes int64, _ time.Duration) { observed += int(bytes) }}
		simulated(t, o, func(r *rig) {
			a := chain("a", 6)
			require.NoError(t, r.fast.Put(ctx, a[:2]))
			require.NoError(t, r.low.Put(ctx, a))
			require.Equal(t, tier.Result{Blocks: 6, By: []int{2, 4}}, r.get(a))
			want := tier.Result{Blocks: 6, By: []int{2, 4}}
			if promote {
				want.By = []int{6, 0}
			}
			require.Equal(t, want, r.get(a))
			if promote {
				require.Equal(t, int64(6), r.fast.Stats().Stored)
				require.NoError(t, r.Clear(ctx, a[0].Root)) // of promoted blocks, too
				require.Equal(t, tier.Result{By: []int{0, 0}}, r.get(a))
			}
			require.Equal(t, 12*size, observed)
		})
	}
}

// Settle waits for the promotion of what was loaded before: until then a tier does not have what it is asked for.
func TestSettleWaitsForPromotion(t *testing.T) {
	simulated(t, tier.MoverOptions{Promote: true}, func(r *rig) {
		a := chain("a", 3)
		require.NoError(t, r.low.Put(ctx, a))
		r.fast.set(func(_ context.Context, op string) error {
			if op == "put" {
				time.Sleep(time.Second)
			}
			return nil
		})
		require.Equal(t, 3, r.submit(ctx, true, 0, a).result().Blocks)
		require.NoError(t, r.Settle(ctx))
		require.Equal(t, int64(3), r.fast.Stats().Stored)
	})
}

// Stores reach all tiers. A block that is there is not written again.
func TestCleanBlocksAreNotCopiedTwice(t *testing.T) {
	simulated(t, tier.MoverOptions{}, func(r *rig) {
		a := chain("a", 5)
		require.Equal(t, tier.Result{Blocks: 3, By: []int{3, 3}}, r.put(a[:3]))
		require.Equal(t, tier.Result{Blocks: 5, By: []int{5, 5}}, r.put(a))
		for _, in := range []*faulty{r.fast, r.low} {
			require.Equal(t, int64(5*size), in.Stats().Written)
		}
		require.Equal(t, int64(2), r.Stats().Stores)
		require.Equal(t, int64(8*size), r.Stats().Tiers[1].StoredBytes)
	})
}

// Jobs of a sequence run in their order, also stores after loads; those of others overtake them.
func TestJobsOfASequenceRunInOrder(t *testing.T) {
	simulated(t, tier.MoverOptions{Workers: 4}, func(r *rig) {
		hook, open := gate("put")
		r.fast.set(hook)
		a := chain("a", 9)
		var order []int
		var moves []*move
		first := r.submit(ctx, false, 7, a[:3])
		for i := 1; i < 6; i++ {
			m := r.submit(ctx, i%2 == 1, 7, a[:3+i])
			moves = append(moves, m)
		}
		synctest.Wait()
		require.Equal(t, []string{"put"}, r.fast.calls)
		other := r.submit(ctx, true, 8, a)
		require.Equal(t, tier.Result{Blocks: 3, By: []int{0, 3}}, other.result(), "another sequence does not wait, and the other tier has it")
		free := r.submit(ctx, true, 0, a)
		require.Equal(t, 3, free.result().Blocks)
		open()
		require.Equal(t, 3, first.result().Blocks)
		for _, m := range moves {
			order = append(order, m.result().Blocks)
		}
		// Each load sees what the store before it put.
		require.Equal(t, []int{3, 5, 5, 7, 7}, order)
	})
}

// Payloads that wait or run are bounded; a job may wait for room, and is served in the order of arrival.
func TestBytesInFlightAreBounded(t *testing.T) {
	simulated(t, tier.MoverOptions{Bytes: 10 * size}, func(r *rig) {
		hook, open := gate("put")
		r.fast.set(hook)
		a := chain("a", 11)
		_, err := r.try(ctx, false, 0, a, true)
		require.Equal(t, tier.ErrBusy{Need: 11 * size, Free: 10 * size, Most: 10 * size}, err, "it will never fit")
		first := r.submit(ctx, false, 0, a[:6])
		_, err = r.try(ctx, false, 0, a[:5], false)
		require.Equal(t, tier.ErrBusy{Need: 5 * size, Free: 4 * size, Most: 10 * size}, err)
		require.Equal(t, int64(6*size), r.Stats().InFlight)
		synctest.Wait()
		require.Equal(t, []int{0, 6}, r.get(a[:10]).By, "loads have room of their own")

		waits, order := make(chan *move, 2), make(chan int, 2)
		for i := range 2 {
			go func() {
				m, err := r.try(ctx, false, 0, a[:5-i], true)
				order <- i
				if err != nil {
					panic(err)
				}
				waits <- m
			}()
			synctest.Wait()
		}
		_, err = r.try(ctx, false, 0, a[:1], false)
		require.ErrorAs(t, err, &tier.ErrBusy{}, "others came first")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = r.try(short, false, 0, a[:5], true)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, order)
		open()
		require.Equal(t, 6, first.result().Blocks)
		for range 2 {
			m := <-waits
			require.Positive(t, m.result().Blocks)
			<-m.released
		}
		require.Equal(t, int64(3), r.Stats().Busy)
	})
}

// Slow stores leave a worker to loads.
func TestStoresDoNotHoldUpLoads(t *testing.T) {
	simulated(t, tier.MoverOptions{Workers: 3}, func(r *rig) {
		hook, open := gate("put")
		r.low.set(hook)
		var stores []*move
		for i := range 6 {
			stores = append(stores, r.submit(ctx, false, 0, chain(fmt.Sprint(i), 2)))
		}
		synctest.Wait()
		require.Len(t, r.low.calls, 2)
		require.Equal(t, 2, r.get(chain("0", 2)).Blocks)
		open()
		for _, m := range stores {
			require.Equal(t, 2, m.result().Blocks)
		}
	})
}

// A context ends a job that waits, at once, and one that runs, with what it has; a deadline does, too.
func TestCancelledJobs(t *testing.T) {
	simulated(t, tier.MoverOptions{Workers: 1}, func(r *rig) {
		hook, open := gate("get")
		r.low.set(hook)
		a := chain("a", 4)
		require.NoError(t, r.fast.Put(ctx, a[:2]))
		require.NoError(t, r.low.Put(ctx, a))
		during, cancel := context.WithCancel(ctx)
		running := r.submit(during, true, 1, a)
		waiting := r.submit(during, true, 2, a)
		behind := r.submit(ctx, true, 2, a[:1])
		synctest.Wait()
		require.False(t, running.isDone())
		cancel()
		res := waiting.result()
		require.ErrorIs(t, res.Err, context.Canceled)
		require.Zero(t, res.Blocks)
		res = running.result()
		require.ErrorIs(t, res.Err, context.Canceled)
		require.Equal(t, 2, res.Blocks, "what was read before")
		require.Equal(t, 1, behind.result().Blocks)
		_, err := r.try(during, true, 0, a, true)
		require.ErrorIs(t, err, context.Canceled)

		begin := time.Now()
		late, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		res = r.submit(late, true, 0, a).result()
		require.ErrorIs(t, res.Err, context.DeadlineExceeded)
		require.Equal(t, 2, res.Blocks)
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
		s := r.Stats()
		require.Equal(t, int64(3), s.Cancelled)
		require.Equal(t, int64(2), s.Tiers[1].Cancelled, "calls")
		require.Zero(t, s.Tiers[1].ConsecutiveFailures, "a caller who does not wait is no failure")
		open()
		require.Equal(t, 4, r.get(a).Blocks)
	})
}

// Clear and Delete reach blocks that are on their way: they do not come back afterwards.
func TestClearReachesJobs(t *testing.T) {
	for _, what := range []string{"root", "all", "delete"} {
		simulated(t, tier.MoverOptions{Workers: 2, Promote: true}, func(r *rig) {
			hook, open := gate("put")
			r.low.set(hook)
			a, other := chain("a", 4), tiertest.Chain("another", "b", 2, size)
			running := r.submit(ctx, false, 1, a)
			waiting := r.submit(ctx, false, 1, a)
			kept := r.submit(ctx, false, 0, other)
			synctest.Wait()
			go func() {
				time.Sleep(time.Second) // the call ends by its context, not by this
				open()
			}()
			switch what {
			case "root":
				require.NoError(t, r.Clear(ctx, a[0].Root))
			case "all":
				require.NoError(t, r.Clear(ctx, tier.Key{}))
			default:
				require.NoError(t, r.Delete(ctx, keys(a)))
			}
			require.ErrorIs(t, running.result().Err, context.Canceled)
			require.ErrorIs(t, waiting.result().Err, context.Canceled)
			require.NoError(t, r.Drain(ctx))
			require.Zero(t, r.get(a).Blocks)
			if what == "all" {
				require.ErrorIs(t, kept.result().Err, context.Canceled)
			} else {
				require.Equal(t, tier.Result{Blocks: 2, By: []int{2, 2}}, kept.result())
			}
			after(2 * time.Second)
			require.Zero(t, r.fast.Stats().Corrupt)
		})
	}
}

// Drain waits for all jobs, or for its context.
func TestDrain(t *testing.T) {
	simulated(t, tier.MoverOptions{}, func(r *rig) {
		require.NoError(t, r.Drain(ctx))
		hook, open := gate("put")
		r.fast.set(hook)
		m := r.submit(ctx, false, 0, chain("a", 2))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, r.Drain(short), context.DeadlineExceeded)
		time.AfterFunc(time.Second, open)
		require.NoError(t, r.Drain(ctx))
		require.True(t, m.isDone())
	})
}

// Close ends what waits and what runs, at once, and releases all of it.
func TestCloseInTheMiddle(t *testing.T) {
	simulated(t, tier.MoverOptions{Workers: 2, Bytes: 100 * size}, func(r *rig) {
		hook, _ := gate("put")
		r.low.set(hook)
		var moves []*move
		for i := range 20 {
			moves = append(moves, r.submit(ctx, false, uint64(i%3), chain(fmt.Sprint(i), 5)))
		}
		refused := make(chan error)
		go func() {
			_, err := r.try(ctx, false, 0, chain("b", 2), true)
			refused <- err
		}()
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, r.Close())
		require.Zero(t, time.Since(begin))
		require.ErrorAs(t, <-refused, &tier.ErrClosed{})
		for _, m := range moves {
			require.ErrorIs(t, m.result().Err, context.Canceled)
			<-m.released
		}
	})
}
