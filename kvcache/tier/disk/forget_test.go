package disk

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Delete and Clear that could not write say so, and do it when they are called again.
func TestForgetFails(t *testing.T) {
	for name, call := range map[string]func(*Tier) error{
		"delete": func(d *Tier) error { return d.Delete(ctx, []tier.Key{keyOf(1)}) },
		"clear":  func(d *Tier) error { return d.Clear(ctx, tier.Key{1, 7}) },
		"all":    func(d *Tier) error { return d.Clear(ctx, tier.Key{}) },
	} {
		for _, kind := range []string{"write", "sync", "truncate"} {
			if name == "all" && kind == "write" || name != "all" && kind == "truncate" {
				continue // which it does not do
			}
			t.Run(name+kind, func(t *testing.T) {
				o := options(newMemoryFS(), 8)
				d, sys, now := opened(t, o)
				require.NoError(t, d.Put(ctx, chainOf(1, 1)))
				require.NoError(t, d.Sync())
				sys.breaks(failing("table", kind, syscall.EIO, 0))
				require.ErrorIs(t, call(d), syscall.EIO)
				require.Empty(t, found(t, d, 1))
				sys.breaks(nil)
				require.NoError(t, call(d))
				now.pass(time.Minute)
				o.system = sys.crash(len(sys.log), 512, func() bool { return false })
				r, _, _ := opened(t, o)
				require.Empty(t, found(t, r, 1), "not after a crash, either")
				require.NoError(t, d.Put(ctx, chainOf(1, 3)))
				require.Len(t, found(t, d, 3), 3)
				require.NoError(t, d.index.check())
			})
		}
	}
}

// What was given up for another block is forgotten for good by Delete and Clear, too, although the other block's entry was not synced.
func TestForgetWhatWasGivenUp(t *testing.T) {
	for name, call := range map[string]func(*Tier) error{
		"delete": func(d *Tier) error { return d.Delete(ctx, []tier.Key{keyOf(1)}) },
		"clear":  func(d *Tier) error { return d.Clear(ctx, tier.Key{1, 7}) },
		"all":    func(d *Tier) error { return d.Clear(ctx, tier.Key{}) },
	} {
		for _, when := range []string{"before", "during", "by a process that was killed"} {
			o := options(newMemoryFS(), 1)
			d, sys, _ := opened(t, o)
			require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1, 0)}))
			require.NoError(t, d.Sync())
			put := func() { require.NoError(t, d.Put(ctx, []tier.Block{blockOf(2, 0)})) }
			ended := make(chan struct{})
			switch when {
			case "during": // the first thing that is written is that the slot is free
				begun, goOn := make(chan struct{}), make(chan struct{})
				var once sync.Once
				sys.pausing(func(op) { once.Do(func() { close(begun); <-goOn }) })
				go func() { defer close(ended); put() }()
				<-begun
				time.AfterFunc(20*time.Millisecond, func() { close(goOn) })
			case "before":
				put()
				close(ended)
			default:
				put()
				close(ended)
				sys.files["/cache/lock"].locked = false
				d, _, _ = opened(t, o)
			}
			require.NoError(t, call(d))
			sys.mu.Lock()
			o.system = sys.crash(len(sys.log), 512, func() bool { return false })
			sys.mu.Unlock()
			r, _, _ := opened(t, o)
			require.Empty(t, found(t, r, 1), "%s, given up %s", name, when)
			<-ended
		}
	}
}

// Nor does what was cut off for the floor come back, where the files could not be cut off at once.
func TestForgetWhatWasCutOff(t *testing.T) {
	for _, file := range []string{"table", "data"} {
		for _, kind := range []string{"truncate", "sync"} {
			if file == "data" && kind == "sync" {
				continue // which cutting off does not do
			}
			o := options(newMemoryFS(), 4)
			o.Floor = 1 << 20
			d, sys, _ := opened(t, o)
			require.NoError(t, d.Put(ctx, chainOf(1, 4)))
			require.NoError(t, d.Sync())
			sys.breaks(failing(file, kind, syscall.EIO, 0))
			sys.mu.Lock()
			sys.other = sys.size
			sys.mu.Unlock()
			d.keepFloor()
			require.Empty(t, found(t, d, 4))
			require.Error(t, d.Delete(ctx, []tier.Key{keyOf(3)}), "%s of %s", kind, file)
			sys.breaks(nil)
			require.NoError(t, d.Delete(ctx, []tier.Key{keyOf(3)}))
			o.system = sys.crash(len(sys.log), 512, func() bool { return false })
			r, _, _ := opened(t, o)
			require.NotContains(t, found(t, r, 4), 3, "%s of %s", kind, file)
		}
	}
}

// Nor does what could not be read for a while, nor taken out of the table then.
func TestForgetWhatIsQuarantined(t *testing.T) {
	for _, marked := range []bool{true, false} {
		o := options(newMemoryFS(), 4)
		d, sys, now := opened(t, o)
		require.NoError(t, d.Put(ctx, chainOf(1, 2)))
		require.NoError(t, d.Sync())
		sys.breaks(func(o op) (int, error) {
			if o.kind == "read" || o.kind == "write" && !marked {
				return 0, syscall.EIO
			}
			return 0, nil
		})
		for range patience {
			_, err := d.Get(ctx, []tier.Block{{Key: keyOf(2), Bytes: make([]byte, sizeOf(2))}})
			require.Error(t, err)
			now.pass(time.Minute)
		}
		require.Positive(t, d.Stats().QuarantinedCapacity)
		if !marked {
			require.ErrorIs(t, d.Delete(ctx, []tier.Key{keyOf(2)}), syscall.EIO)
		}
		sys.breaks(nil)
		require.NoError(t, d.Delete(ctx, []tier.Key{keyOf(2)}))
		o.system = sys.crash(len(sys.log), 512, func() bool { return false })
		r, _, _ := opened(t, o)
		require.Equal(t, map[int]bool{1: true}, found(t, r, 4), "taken out at once: %v", marked)
	}
}
