package disk

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// powerNumbers is how many blocks a history has, in chains of six.
const powerNumbers = 24

// Whatever the order of calls, some of them in the middle of another one's change or sync, and whatever a power loss
// keeps of what was not synced: what is found is right; what Delete or Clear returned nil for is gone; what Sync, Close or a durable
// Put returned nil for is there.
func TestPower(t *testing.T) {
	histories := 12
	if testsize.Full() {
		histories *= 40
	}
	for variant := range 4 {
		secret, durable := variant&1 == 1, variant&2 == 2
		t.Run(fmt.Sprintf("secret=%v/durable=%v", secret, durable), func(t *testing.T) {
			for seed := range histories {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(variant)))
				o := options(newMemoryFS(), 2+r.IntN(powerNumbers))
				o.Floor, o.step, o.Durable = 1<<20, 3*2*page, durable
				if secret {
					o.Secret = make([]byte, seal.SecretBytes)
				}
				var gone map[int]bool
				for number := range 3 {
					sys := o.system.(*memoryFS)
					begin := sys.changes()
					h := &life{t: t, name: fmt.Sprintf("seed %d life %d", seed, number), r: r, o: o, sys: sys, faults: number%2 == 1}
					h.run(gone, 30)
					for range 8 {
						h.crash(begin + r.IntN(sys.changes()-begin+1))
					}
					o.system, gone = h.crash(sys.changes())
				}
			}
		})
	}
}

// life is calls of one tier, one after another, and others in the middle of those.
type life struct {
	t      *testing.T
	name   string
	r      *rand.Rand
	o      Options
	sys    *memoryFS
	d      *Tier
	faults bool
	now    clock
	past   promises

	inside atomic.Bool   // a call is in the middle of another one
	other  chan struct{} // closed when it has returned
}

func (h *life) run(gone map[int]bool, calls int) {
	h.o.now = h.now.time
	h.past.sys = h.sys
	h.forget(gone, func() error { return nil })
	h.reopen()
	for range calls {
		h.sys.pausing(h.interrupt)
		h.call(h.r)
		h.sys.pausing(nil)
		if h.other != nil {
			<-h.other
			h.other = nil
		}
		h.inside.Store(false)
		if h.faults {
			h.sys.breaks(h.fault)
		}
		if h.r.IntN(12) == 0 {
			h.reopen()
		}
	}
	h.sys.breaks(nil)
	require.NoError(h.t, h.d.index.check(), h.name)
	h.reopen()
	require.NoError(h.t, h.d.Close(), h.name)
}

// reopen closes the tier, which keeps its blocks, and opens it again.
func (h *life) reopen() {
	h.sys.breaks(nil)
	if h.d != nil {
		if had := h.d.contents(); h.d.Close() == nil {
			h.past.keep(had, h.d)
		} else {
			h.past.doubt(had)
		}
	}
	var err error
	h.d, err = Open(h.o)
	require.NoError(h.t, err, h.name)
}

// fault makes some calls of the file system fail.
func (h *life) fault(o op) (int, error) {
	if o.kind == "read" {
		return 0, nil
	}
	if x := len(h.sys.log) * 2654435761 >> 7 % 31; x == 0 {
		return min(len(o.data), 100), syscall.EIO
	}
	return 0, nil
}

// interrupt starts another call in the middle of one, which goes on when that has returned, or waits for it.
func (h *life) interrupt(op) {
	if !h.inside.CompareAndSwap(false, true) {
		return
	}
	if h.r.IntN(5) > 0 {
		h.inside.Store(false)
		return
	}
	done, r := make(chan struct{}), rand.New(rand.NewPCG(h.r.Uint64(), 1))
	h.other = done
	go func() {
		defer close(done)
		h.call(r)
	}()
	select {
	case <-done:
	case <-time.After(time.Millisecond):
	}
}

// call makes any of a tier's calls, and notes what it promises.
func (h *life) call(r *rand.Rand) {
	h.now.pass(time.Minute)
	first := 1 + 6*r.IntN(powerNumbers/6)
	switch x := r.IntN(20); {
	case x < 8:
		from := r.IntN(6)
		blocks := chainOf(first, 6)[from : from+1+r.IntN(6-from)]
		s := h.past.begin()
		h.past.put(s, blocks)
		_ = h.d.Put(ctx, blocks)
		h.past.end(s)
	case x < 11:
		numbers, keys := map[int]bool{}, []tier.Key(nil)
		for range 1 + r.IntN(3) {
			n := first + r.IntN(6)
			numbers[n], keys = true, append(keys, keyOf(n))
		}
		h.forget(numbers, func() error { return h.d.Delete(ctx, keys) })
	case x < 14:
		root := []tier.Key{{}, {0, 7}, {1, 7}, {1, 7}, {0, 7}}[r.IntN(5)]
		numbers := map[int]bool{}
		for n := 1; n <= powerNumbers; n++ {
			if (root == tier.Key{}) || blockOf(n, 0).Root == root {
				numbers[n] = true
			}
		}
		h.forget(numbers, func() error { return h.d.Clear(ctx, root) })
	case x < 16:
		had := h.d.contents()
		if h.d.Sync() == nil {
			h.past.keep(had, h.d)
		} else {
			h.past.doubt(h.d.contents())
		}
	case x < 17: // others take what the floor keeps free, and give it back
		h.sys.taken(h.sys.size - h.sys.size/1000)
		h.d.keepFloor()
		h.sys.taken(0)
	default:
		n := first + r.IntN(6)
		if x == 19 { // it cannot be read, so it is dropped
			h.sys.breaks(failing("data", "read", syscall.EIO, 0))
			for range patience {
				_, _ = h.d.Get(ctx, []tier.Block{{Key: keyOf(n), Bytes: make([]byte, sizeOf(n))}})
				h.now.pass(time.Minute)
			}
			h.sys.breaks(nil)
		}
		b := make([]byte, sizeOf(n))
		if got, _ := h.d.Get(ctx, []tier.Block{{Key: keyOf(n), Bytes: b}}); got == 1 && string(b) != string(content(keyOf(n), len(b))) {
			h.t.Errorf("%s: wrong bytes under key %d", h.name, n)
		}
	}
	if h.o.Durable {
		h.past.keep(h.d.contents(), h.d)
	}
}

func (h *life) forget(numbers map[int]bool, do func() error) {
	s := h.past.begin()
	err := do()
	h.past.end(s)
	if err == nil {
		h.past.forgot(s, numbers)
	}
}

// crash opens what is left of the first changes, checks it, and returns it and what has to stay gone.
func (h *life) crash(at int) (fileSystem, map[int]bool) {
	sector := []int{64, 512, page}[h.r.IntN(3)]
	often := []int{0, 3, 5, 9, 10}[h.r.IntN(5)]
	image := h.sys.crash(at, sector, func() bool { return h.r.IntN(10) < often })
	image.size = h.sys.size
	gone := h.past.gone(at)
	o := h.o
	o.system = image
	d, err := Open(o)
	require.NoError(h.t, err, "%s after %d changes", h.name, at)
	defer d.Close()
	is := found(h.t, d, powerNumbers)
	for n := range gone {
		if is[n] {
			h.t.Errorf("%s: block %d was forgotten for good, and is found after a crash after %d changes", h.name, n, at)
		}
	}
	if sector == 64 { // no disk tears writes like that, and it loses an entry
		return image, gone
	}
	for n := range h.past.there(at, h.sys.log) {
		if !is[n] {
			h.t.Errorf("%s: block %d was on the disk, and is not found after a crash after %d changes", h.name, n, at)
		}
	}
	return image, gone
}
