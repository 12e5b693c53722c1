package kvcache

import (
	"context"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
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

// A pool that cannot be made leaves no tier open and nothing running.
func TestTiersOfAPoolThatFails(t *testing.T) {
	cfg := small(LayoutUnset)
	cfg.Memory.BlockSize, cfg.Memory.Blocks, cfg.Model.Digest = 4, 12, []byte("weights")
	cfg.Tiers = config.Tiers{Disk: config.Disk{Dir: filepath.Join(t.TempDir(), "disk"), Bytes: 1 << 20}}
	before, failures := runtime.NumGoroutine(), 0
	be := openDevice(t)
	for _, op := range []backendtest.Op{backendtest.OpNewStream, backendtest.OpAlloc} {
		for after := 0; ; after++ {
			dev := backendtest.NewFaulty[buffer](be)
			dev.SetFault(backendtest.After(after, errBoom, op))
			p, err := NewPool[buffer](dev, cfg)
			if err == nil {
				require.NoError(t, p.Close())
				break
			}
			require.ErrorIs(t, err, errBoom)
			require.Zero(t, be.Info().Buffers)
			failures++
		}
	}
	require.Greater(t, failures, 2)
	require.NoError(t, be.Close())
	nothingRuns(t, before)
}
