package kvcache

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pool may be closed while others ask it.
func TestTiersClosedUnderCalls(t *testing.T) {
	for range 20 {
		r := tiered(t, 12, host(t))
		r.cache(sequence(1, 23), OpenOptions{})
		var calls sync.WaitGroup
		for _, do := range []func() error{
			func() error { _, _, err := r.pool.Open(sequence(1, 33), OpenOptions{}); return err },
			func() error { r.pool.Prefilled(0, 10, time.Second); return r.pool.Flush(context.Background()) },
			func() error { r.pool.Tiers(); _, err := r.pool.Match(sequence(1, 33), OpenOptions{}); return err },
		} {
			calls.Go(func() {
				for do() == nil {
				}
			})
		}
		time.Sleep(time.Millisecond)
		require.NoError(t, r.pool.Close())
		calls.Wait()
		require.Nil(t, r.pool.Tiers())
		require.NoError(t, r.s.Close())
		require.NoError(t, r.be.Close())
	}
}
