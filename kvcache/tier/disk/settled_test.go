package disk

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// worst is what is left after a crash that keeps only what was synced.
func worst(t *testing.T, o Options) *Tier {
	sys := o.system.(*memoryFS)
	sys.mu.Lock()
	o.system = sys.crash(len(sys.log), 512, func() bool { return false })
	sys.mu.Unlock()
	d, _, _ := opened(t, o)
	return d
}

// during starts one call before a change that another one makes. The other one goes on when the first has returned, or waits for it, and
// both have returned afterwards.
func (m *memoryFS) during(what func(op) bool, call, other func()) {
	var done chan struct{}
	m.pausing(func(o op) {
		if done != nil || !what(o) {
			return
		}
		done = make(chan struct{})
		go func() {
			defer close(done)
			other()
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Millisecond):
		}
	})
	call()
	m.pausing(nil)
	<-done
}

func change(file, kind string) func(op) bool {
	return func(o op) bool { return o.file == "/cache/"+file && o.kind == kind }
}

// What another call is about to take out of the table, or to cut off, does not count as done: neither for a sync in the middle, nor
// for a second call that forgets the same.
func TestForgetInTheMiddle(t *testing.T) {
	key := []tier.Key{keyOf(1)}
	for name, c := range map[string]struct {
		in          func(op) bool
		call, other func(*testing.T, *Tier, *memoryFS)
	}{
		"sync before the entry of an evicted block": {change("table", "write"),
			func(t *testing.T, d *Tier, _ *memoryFS) { require.NoError(t, d.Put(ctx, []tier.Block{blockOf(2, 0)})) },
			func(t *testing.T, d *Tier, _ *memoryFS) { require.NoError(t, d.Sync()) }},
		"sync before the entry of an unreadable block": {change("table", "write"),
			func(t *testing.T, d *Tier, sys *memoryFS) {
				sys.breaks(failing("data", "read", syscall.EIO, 0))
				for range patience {
					_, _ = d.Get(ctx, []tier.Block{{Key: key[0], Bytes: make([]byte, sizeOf(1))}})
				}
				sys.breaks(nil)
			},
			func(t *testing.T, d *Tier, _ *memoryFS) { require.NoError(t, d.Sync()) }},
		"delete during delete": {change("table", "write"),
			func(t *testing.T, d *Tier, sys *memoryFS) {
				sys.breaks(failing("table", "write", syscall.EIO, 0))
				require.ErrorIs(t, d.Delete(ctx, key), syscall.EIO)
			},
			func(t *testing.T, d *Tier, sys *memoryFS) {
				if d.Delete(ctx, key) == nil {
					require.Empty(t, found(t, worst(t, d.o), 1))
				}
			}},
		"delete during the cut for the floor": {change("table", "truncate"),
			func(t *testing.T, d *Tier, sys *memoryFS) {
				sys.taken(sys.size)
				d.keepFloor()
			},
			func(t *testing.T, d *Tier, sys *memoryFS) {
				require.NoError(t, d.Delete(ctx, key))
				require.Empty(t, found(t, worst(t, d.o), 1))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(newMemoryFS(), 1)
			d, sys, _ := opened(t, o)
			require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1, 0)}))
			require.NoError(t, d.Sync())
			sys.during(c.in, func() { c.call(t, d, sys) }, func() { c.other(t, d, sys) })
			sys.breaks(nil)
			require.NoError(t, d.Delete(ctx, key))
			require.Empty(t, found(t, worst(t, o), 1))
		})
	}
}

// A failed sync may keep later ones from writing what it did not: what was given up before it is still gone for good, in
// the process in which it failed and in the next one.
func TestForgetAfterAFailedSync(t *testing.T) {
	for _, again := range []bool{false, true} {
		o := options(newMemoryFS(), 1)
		d, sys, _ := opened(t, o)
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1, 0)}))
		require.NoError(t, d.Sync())
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(2, 0)}))
		sys.breaks(failing("table", "sync", syscall.EIO, 0))
		require.ErrorIs(t, d.Delete(ctx, []tier.Key{keyOf(3)}), syscall.EIO)
		sys.breaks(nil)
		if again {
			sys.files["/cache/lock"].locked = false // it was killed
			d, _, _ = opened(t, o)
		}
		require.NoError(t, d.Delete(ctx, []tier.Key{keyOf(1)}))
		require.NotContains(t, found(t, worst(t, o), 2), 1, "another process: %v", again)
		require.Contains(t, found(t, d, 2), 2)
	}
}

// What a failed durable Put wrote is forgotten for good, too.
func TestForgetWhatWasUndone(t *testing.T) {
	o := options(newMemoryFS(), 2)
	o.Durable = true
	d, sys, _ := opened(t, o)
	syncs := 0
	sys.breaks(func(o op) (int, error) { // the disk has all of it, but the table's sync reports a failure
		if o.kind == "sync" {
			syncs++
			if syncs == 2 {
				sys.log = append(sys.log, op{file: o.file, kind: "sync"})
				return 0, syscall.EIO
			}
		}
		return 0, nil
	})
	require.ErrorIs(t, d.Put(ctx, []tier.Block{blockOf(1, 0)}), syscall.EIO)
	require.NoError(t, d.Delete(ctx, []tier.Key{keyOf(1)}))
	require.Empty(t, found(t, worst(t, o), 1))
}

// Sync and a durable Put do not return nil for what a sync of another call has failed to bring to the disk.
func TestSyncFailedForOthers(t *testing.T) {
	for _, durable := range []bool{false, true} {
		o := options(newMemoryFS(), 4)
		o.Durable = durable
		d, sys, _ := opened(t, o)
		fail := func() {
			sys.breaks(failing("data", "sync", syscall.EIO, 0))
			require.Error(t, d.sync())
			sys.breaks(nil)
		}
		var err error
		sys.during(change("table", "write"), func() { err = d.Put(ctx, []tier.Block{blockOf(1, 0)}) }, fail)
		if !durable {
			require.NoError(t, err)
			err = d.Sync()
		}
		require.ErrorIs(t, err, syscall.EIO, "durable: %v", durable)
		if durable {
			require.ErrorIs(t, d.Sync(), syscall.EIO, "of what other calls may have stored")
		}
		require.NoError(t, d.Sync())
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(2, 0)}))
		require.NoError(t, d.Sync())
		require.Contains(t, found(t, worst(t, o), 2), 2)
	}
}

// What a killed process had written but not synced is on the disk when the next one's durable Put finds it there.
func TestDurableKnowsOnlyWhatIsSynced(t *testing.T) {
	o := options(newMemoryFS(), 4)
	d, sys, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1, 0)}))
	sys.files["/cache/lock"].locked = false // it was killed
	o.Durable = true
	d, _, _ = opened(t, o)
	require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1, 0)}))
	require.Contains(t, found(t, worst(t, o), 1), 1)
}

// A durable Put of several blocks and a Delete that writes the whole table do not wait for each other.
func TestDurablePutWhileTheTableIsWrittenAnew(t *testing.T) {
	o := options(newMemoryFS(), 4)
	o.Durable = true
	d, _, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1, 0)}))
	require.NoError(t, d.Close())
	d, sys, _ := opened(t, o)
	begun, put, gone := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	life, end := context.WithCancel(ctx)
	defer end()
	var deleting, putting atomic.Bool
	sys.pausing(func(o op) {
		switch {
		case change("table", "write")(o) && deleting.CompareAndSwap(false, true):
			go func() { put <- d.Put(life, []tier.Block{blockOf(2, 0), blockOf(3, 2)}) }()
			<-begun
		case change("data", "write")(o) && putting.CompareAndSwap(false, true):
			close(begun)
			time.Sleep(20 * time.Millisecond) // the Delete goes as far as it can
		}
	})
	go func() { gone <- d.Delete(ctx, []tier.Key{keyOf(1)}) }()
	for _, c := range []chan error{gone, put} {
		select {
		case err := <-c:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("the calls wait for each other")
		}
	}
	sys.pausing(nil)
	require.Equal(t, map[int]bool{2: true, 3: true}, found(t, worst(t, o), 3))
}
