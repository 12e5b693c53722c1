package disk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// descriptors is how many files this process has open, where that can be known.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// Calls from everywhere, failures among them, never mix contents, and Close in their middle leaves nothing behind.
func TestConcurrent(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), descriptors()
	for round := range 6 {
		o := onDisk(t.TempDir())
		o.Bytes, o.syncBytes, o.syncEvery = budget(12), 5*payload, time.Millisecond
		o.Durable = round%3 == 2
		if round%2 == 1 {
			o.Secret = make([]byte, seal.SecretBytes)
		}
		d, err := Open(o)
		require.NoError(t, err)
		var wg sync.WaitGroup
		failures := make(chan error, 8)
		for g := range 6 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), uint64(round)))
				for {
					if err := anyCall(d, rng); err != nil {
						if !errors.As(err, new(tier.ErrClosed)) {
							failures <- err
						}
						return
					}
				}
			})
		}
		time.Sleep(150 * time.Millisecond)
		require.NoError(t, d.Close())
		wg.Wait()
		close(failures)
		require.NoError(t, <-failures)
		require.NoError(t, d.index.check())
		require.Zero(t, d.Stats().Corrupt)
		require.Zero(t, d.Stats().Failures)
	}
	for range 1000 { // those of the calls may still be on their way out; Eventually would add its own
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.Equal(t, files, descriptors())
}

func anyCall(d *Tier, rng *rand.Rand) error {
	first, n := 1+8*rng.IntN(4), 1+rng.IntN(6)
	blocks := chainOf(first, n)
	switch rng.IntN(12) {
	case 0:
		return d.Delete(ctx, []tier.Key{blocks[0].Key})
	case 1:
		return d.Clear(ctx, []tier.Key{{}, {1, 7}}[rng.IntN(2)])
	case 2:
		return d.Sync()
	case 3:
		d.keepFloor()
		d.Stats()
		return nil
	case 4, 5, 6, 7:
		return d.Put(ctx, blocks)
	}
	var dst []tier.Block
	for _, b := range blocks {
		dst = append(dst, tier.Block{Key: b.Key, Bytes: make([]byte, len(b.Bytes))})
	}
	got, err := d.Get(ctx, dst)
	for i := range got {
		if !bytes.Equal(dst[i].Bytes, blocks[i].Bytes) {
			return errors.New("wrong bytes")
		}
	}
	return err
}
