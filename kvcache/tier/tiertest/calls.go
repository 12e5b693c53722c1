package tiertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// each calls all methods that take a context.
func each(ctx context.Context, in tier.Tier, blocks []tier.Block) map[string]error {
	out := map[string]error{}
	_, out["has"] = in.Has(ctx, keys(blocks))
	_, out["get"] = in.Get(ctx, buffers(keys(blocks), payload))
	out["put"] = in.Put(ctx, blocks)
	out["delete"] = in.Delete(ctx, keys(blocks))
	out["clear"] = in.Clear(ctx, blocks[0].Root)
	return out
}

// A context that has ended ends calls: a prompt that nobody waits for costs nothing. What was there stays.
func checkContexts(r *rig) {
	in := r.tier()
	a, b := Chain("contexts", "a", 4, payload), Chain("contexts", "b", 4, payload)
	put(r.t, in, a)
	over, cancel := context.WithCancel(ctx)
	cancel()
	for op, err := range each(over, in, a) {
		require.ErrorIs(r.t, err, context.Canceled, op)
	}
	late, cancel := context.WithDeadline(ctx, time.Unix(1, 0))
	defer cancel()
	for op, err := range each(late, in, a) {
		require.ErrorIs(r.t, err, context.DeadlineExceeded, op)
	}
	holds(r.t, in, a, 4)
	require.ErrorIs(r.t, in.Put(over, b), context.Canceled)
	for i := range b {
		holds(r.t, in, b[i:], 0) // a Put that did not begin left nothing
	}

	// During a call. Whatever it says, what is there is whole, and the books are right.
	blocks := Chain("contexts", "c", room, payload)
	for i := range 40 {
		during, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(cancel)
		var err error
		if i%2 == 0 {
			err = in.Put(during, blocks)
		} else {
			var n int
			dst := buffers(keys(blocks), payload)
			n, err = in.Get(during, dst)
			require.NoError(r.t, verify(dst[:n]), "what was read before the context ended")
		}
		wg.Wait()
		if err != nil {
			require.ErrorIs(r.t, err, context.Canceled)
		}
		get(r.t, in, keys(blocks), payload)
		s := in.Stats()
		require.LessOrEqual(r.t, s.Bytes, s.Capacity)
	}
	put(r.t, in, a)
	holds(r.t, in, a, 4)
}

func checkClosed(r *rig) {
	in := r.tier()
	a := Chain("closed", "a", 3, payload)
	put(r.t, in, a)
	require.NoError(r.t, in.Close())
	for op, err := range each(ctx, in, a) {
		require.ErrorAs(r.t, err, &tier.ErrClosed{}, op)
	}
	require.NoError(r.t, in.Close(), "once more")
	in.Stats()
	in.Info()
	require.NoError(r.t, r.tier().Close(), "an unused tier")
}

// Close in the middle of calls waits for them; later ones fail. Nothing is written to a caller's buffer after it returned.
func checkClosing(r *rig) {
	for round := range 8 {
		in := r.tier()
		a := Chain("closing", "a", room/2, payload)
		put(r.t, in, a)
		var calls, closed sync.WaitGroup
		var over atomic.Bool
		failures := make(chan error, 64)
		started := make(chan struct{}, 64)
		for w := range 4 {
			calls.Go(func() {
				b := Chain("closing", fmt.Sprint(w), 3, payload)
				dst := buffers(keys(a), payload)
				for i := 0; ; i++ {
					if i == round {
						started <- struct{}{}
					}
					late := over.Load()
					n, err := in.Get(ctx, dst)
					if late && err == nil {
						failures <- errors.New("a call that began after Close was done")
						return
					}
					if wrong := verify(dst[:n]); wrong != nil {
						failures <- wrong
						return
					}
					if err == nil {
						err = in.Put(ctx, b)
					}
					if err != nil {
						if !errors.As(err, new(tier.ErrClosed)) {
							failures <- err
						}
						return
					}
				}
			})
		}
		for range 4 {
			select {
			case <-started:
			case err := <-failures:
				require.NoError(r.t, err)
			}
		}
		for range 2 { // at once
			closed.Go(func() {
				if err := in.Close(); err != nil {
					failures <- err
				}
			})
		}
		closed.Wait()
		over.Store(true)
		for op, err := range each(ctx, in, a) {
			if !errors.As(err, new(tier.ErrClosed)) {
				failures <- fmt.Errorf("%s after Close: %v", op, err)
			}
		}
		calls.Wait()
		close(failures)
		for err := range failures {
			require.NoError(r.t, err)
		}
	}
}
