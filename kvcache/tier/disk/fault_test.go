package disk

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func opened(t *testing.T, o Options) (*Tier, *memoryFS, *clock) {
	c := &clock{now: time.Unix(1e9, 0)}
	o.now = c.time
	d, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d, o.system.(*memoryFS), c
}

// breaks sets what fails from now on.
func (m *memoryFS) breaks(hook func(op) (int, error)) {
	m.mu.Lock()
	m.hook = hook
	m.mu.Unlock()
}

// What failed to be written is not found, now or after reopening; what was there stays; the disk is tried again later.
func TestWriteFails(t *testing.T) {
	for _, file := range []string{"data", "table"} {
		for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
			for torn := range 3 {
				t.Run(fmt.Sprint(file, errno, torn), func(t *testing.T) {
					o := options(newMemoryFS(), 4)
					d, sys, now := opened(t, o)
					require.NoError(t, d.Put(ctx, chainOf(1, 2)))
					sys.breaks(failing(file, "write", errno, torn*100))
					for range patience {
						err := d.Put(ctx, []tier.Block{blockOf(3, 2)})
						require.ErrorIs(t, err, errno)
						require.ErrorAs(t, err, new(tier.ErrFailed))
					}
					require.Equal(t, int64(patience), d.Stats().Failures)
					require.NoError(t, d.Put(ctx, []tier.Block{blockOf(3, 2)}), "declined")
					require.Equal(t, int64(1), d.Stats().Declined)
					require.Equal(t, map[int]bool{1: true, 2: true}, found(t, d, 9))
					sys.breaks(nil)
					require.NoError(t, d.Put(ctx, []tier.Block{blockOf(3, 2)}))
					require.NotContains(t, found(t, d, 9), 3, "not yet")
					now.pass(time.Second)
					require.NoError(t, d.index.check())

					crashed := sys.crash(len(sys.log), 512, func() bool { return true })
					again := o
					again.system = crashed
					r, _, _ := opened(t, again)
					require.Equal(t, map[int]bool{1: true, 2: true}, found(t, r, 9))

					require.NoError(t, d.Put(ctx, chainOf(3, 2)))
					require.Len(t, found(t, d, 9), 4)
				})
			}
		}
	}
}

// Blocks of a Put that fails are as if they had not been asked for.
func TestPutFailsMidway(t *testing.T) {
	for _, durable := range []bool{false, true} {
		o := options(newMemoryFS(), 8)
		o.Durable = durable
		d, sys, _ := opened(t, o)
		writes := 0
		sys.breaks(func(o op) (int, error) {
			if o.kind == "write" && o.file == "/cache/data" {
				if writes++; writes > 2 {
					return 0, syscall.EIO
				}
			}
			return 0, nil
		})
		require.ErrorIs(t, d.Put(ctx, chainOf(1, 4)), syscall.EIO)
		sys.breaks(nil)
		require.Empty(t, found(t, d, 9))
		require.NoError(t, d.index.check())
		require.NoError(t, d.Put(ctx, chainOf(1, 4)))
		require.Len(t, found(t, d, 9), 4)
	}
}

// A sync that fails fails a durable Put, and is counted for others.
func TestSyncFails(t *testing.T) {
	o := options(newMemoryFS(), 8)
	d, sys, _ := opened(t, o)
	sys.breaks(failing("data", "sync", syscall.EIO, 0))
	require.NoError(t, d.Put(ctx, chainOf(1, 2)))
	require.ErrorIs(t, d.Sync(), syscall.EIO)
	require.Equal(t, int64(1), d.Stats().Failures)
	require.Len(t, found(t, d, 9), 2)

	o = options(newMemoryFS(), 8)
	o.Durable = true
	d, sys, _ = opened(t, o)
	sys.breaks(failing("data", "sync", syscall.EIO, 0))
	require.ErrorIs(t, d.Put(ctx, chainOf(1, 2)), syscall.EIO)
	require.Empty(t, found(t, d, 9))
	require.NoError(t, d.index.check())
}

// A payload that cannot be read is kept until it has failed three times.
func TestReadFails(t *testing.T) {
	d, sys, now := opened(t, options(newMemoryFS(), 8))
	require.NoError(t, d.Put(ctx, chainOf(1, 2)))
	get := func(n int) (int, error) {
		return d.Get(ctx, []tier.Block{{Key: keyOf(n), Bytes: make([]byte, sizeOf(n))}})
	}
	sys.breaks(failing("data", "read", syscall.EIO, 0))
	for range patience - 1 {
		_, err := get(1)
		require.ErrorIs(t, err, syscall.EIO)
	}
	sys.breaks(nil)
	n, err := get(1)
	require.NoError(t, err)
	require.Equal(t, 1, n, "it is kept")

	sys.breaks(failing("data", "read", syscall.EIO, 0))
	for range patience {
		_, err = get(1)
		require.ErrorIs(t, err, syscall.EIO)
	}
	sys.breaks(nil)
	n, err = get(1)
	require.NoError(t, err)
	require.Zero(t, n, "it is not")
	_, err = get(2)
	require.ErrorIs(t, err, errBackOff)
	now.pass(time.Second)
	n, err = get(2)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, [2]int64{0, payload}, [2]int64{d.Stats().Corrupt, d.Stats().QuarantinedCapacity})
	require.NoError(t, d.index.check())
}

// An Open that fails says so by its type, leaves no file open, and what was there is there.
func TestOpenFails(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		o := options(newMemoryFS(), 4)
		sys := o.system.(*memoryFS)
		if !fresh {
			d, _, _ := opened(t, o)
			require.NoError(t, d.Put(ctx, chainOf(1, 4)))
			require.NoError(t, d.Close())
			o.Bytes = budget(3) // so that there is something to do
		}
		for _, kind := range []string{"read", "write", "whole", "truncate", "sync"} {
			if fresh && kind == "read" {
				continue // there is nothing to read
			}
			for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS} {
				hit := false
				sys.breaks(func(o op) (int, error) {
					if hit = hit || o.kind == kind; o.kind == kind {
						return 0, errno
					}
					return 0, nil
				})
				d, err := Open(o)
				sys.breaks(nil)
				if !hit {
					require.NoError(t, err)
					require.NoError(t, d.Close())
					continue
				}
				require.ErrorIs(t, err, errno, "%s, fresh: %v", kind, fresh)
				require.ErrorAs(t, err, new(tier.ErrFailed))
				require.Zero(t, sys.open)
			}
		}
		d, _, _ := opened(t, o)
		if !fresh {
			require.Len(t, found(t, d, 4), 3)
		}
		require.NoError(t, d.Put(ctx, chainOf(1, 3)))
		require.Len(t, found(t, d, 4), 3)
	}
}

// A directory that is removed ends the tier: calls say so, and its files are closed.
func TestGone(t *testing.T) {
	o := options(newMemoryFS(), 8)
	o.syncEvery = time.Millisecond
	d, sys, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, chainOf(1, 2)))
	sys.mu.Lock()
	clear(sys.files)
	sys.mu.Unlock()
	require.Eventually(t, func() bool {
		_, err := d.Has(ctx, nil)
		return err != nil
	}, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, d.Put(ctx, chainOf(1, 2)), ErrGone{"/cache"})
	_, err := d.Get(ctx, []tier.Block{{Key: keyOf(1), Bytes: make([]byte, sizeOf(1))}})
	require.ErrorIs(t, err, ErrGone{"/cache"})
	require.Zero(t, d.Stats().Blocks)
	require.NoError(t, d.Close())
	require.Zero(t, sys.open)
	r, _, _ := opened(t, o)
	require.NoError(t, r.Put(ctx, chainOf(1, 2)))
}

// So does another file in the place of the lock's: there may be another process.
func TestLockReplaced(t *testing.T) {
	o := options(newMemoryFS(), 8)
	o.syncEvery = time.Millisecond
	d, sys, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, chainOf(1, 2)))
	sys.mu.Lock()
	delete(sys.files, "/cache/lock")
	sys.mu.Unlock()
	second, _, _ := opened(t, o)
	require.Eventually(t, func() bool { return errors.Is(d.Delete(ctx, nil), ErrGone{"/cache"}) }, 10*time.Second, time.Millisecond)
	require.Len(t, found(t, second, 2), 2)
}
