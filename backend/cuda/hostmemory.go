//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/bytesize"
	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
)

// pinnedVar is the most bytes that HostAlloc pins at a time.
const pinnedVar = "FERRUM_CUDA_PINNED_BYTES"

// Memory that is pinned is lost to everybody else, whether it is used or not: a quarter leaves room for four processes.
const pinnedShare, pinnedUnknown = 4, 1 << 30

// pinnedLimit is what pinnedVar says, or a share of the memory that the process may use.
func pinnedLimit() (int64, error) {
	text := os.Getenv(pinnedVar)
	if text == "" {
		if all := hostmemory.Physical(); all > 0 {
			return all / pinnedShare, nil
		}
		return pinnedUnknown, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, backend.ErrConfig{Package: "cuda", Name: pinnedVar, Value: text, Why: "accepts a number of bytes, 0 to pin none"}
	}
	return n, nil
}

// host counts what HostAlloc gives. Pinned memory is the context's, and programs read it when the device is closed, too: the
// last of both to go releases the context.
type host struct {
	release func() error

	mu     sync.Mutex
	use    backend.HostUse
	pinned int  // pieces of pinned memory
	closed bool // the device
}

// reserve counts n bytes as pinned, where Limit has room for them.
func (h *host) reserve(n int64) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return false, fmt.Errorf("device %w", backend.ErrClosed)
	case n > h.use.Limit-h.use.Pinned:
		h.use.OverLimit++
		return false, nil
	}
	h.use.Pinned += n
	h.pinned++
	return true, nil
}

// unpin ends what reserve began; refused: the driver has not pinned it.
func (h *host) unpin(n int64, refused bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.use.Pinned -= n
	h.pinned--
	if refused {
		h.use.Refused++
	}
	if h.closed && h.pinned == 0 {
		return h.release()
	}
	return nil
}

// other counts n bytes more, or fewer, of other memory.
func (h *host) other(n int64) {
	h.mu.Lock()
	h.use.Other += n
	h.mu.Unlock()
}

func (h *host) now() backend.HostUse {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.use
}

// close is the last that the device does with the context.
func (h *host) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.pinned > 0 {
		return nil
	}
	return h.release()
}

// hostMemory is memory of HostAlloc.
type hostMemory struct {
	be     *Backend
	pinned bool

	using sync.RWMutex           // held for reading by who enqueues copies
	mem   atomic.Pointer[[]byte] // nil: closed

	mu    sync.Mutex
	lanes []*lane // whose copies may be under way; guarded by mu
}

// HostAlloc returns n bytes of page-locked memory, zeroed. Where FERRUM_CUDA_PINNED_BYTES would be exceeded, or the driver has no
// more, it is other memory, which copies pass by way of the stream's page-locked memory; Info.Host counts that. It outlives the device, whose
// context it keeps.
func (be *Backend) HostAlloc(n int64) (backend.HostMemory, error) {
	const op = "host alloc"
	if n < 0 || int64(int(n)) != n {
		return nil, backend.ErrArgument{Op: op, What: fmt.Sprintf("%d bytes", n)}
	}
	if err := be.dev.Use(op); err != nil {
		return nil, err
	}
	be.dev.End() // what follows takes long, and needs only the context
	h, mem := &hostMemory{be: be}, []byte{}
	if n > 0 {
		var err error
		if mem, err = be.pin(op, int(n)); err != nil {
			return nil, err
		}
		if h.pinned = mem != nil; !h.pinned {
			if mem, err = hostmemory.Obtain(int(n)); err != nil {
				return nil, fmt.Errorf("%s: %s: %s requested: %w: %w", be.dev.Name(), op, bytesize.String(n), backend.ErrOutOfMemory{}, err)
			}
			be.host.other(n)
		}
	}
	h.mem.Store(&mem)
	return h, nil
}

// pin returns page-locked memory; nil where there is no more.
func (be *Backend) pin(op string, n int) ([]byte, error) {
	ours, err := be.host.reserve(int64(n))
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", be.dev.Name(), op, err)
	}
	if !ours {
		return nil, nil
	}
	mem, err := be.ctx.AllocHost(n)
	if err != nil {
		err = be.dev.Failed(op, err)
		if released := be.host.unpin(int64(n), true); be.dev.Lost() {
			return nil, errors.Join(err, released)
		}
		return nil, nil
	}
	clear(mem)
	return mem, nil
}

// Bytes is the memory; nil after Close.
func (h *hostMemory) Bytes() []byte {
	if mem := h.mem.Load(); mem != nil {
		return *mem
	}
	return nil
}

// Pinned reports whether the device copies by itself.
func (h *hostMemory) Pinned() bool { return h.pinned }

// Hold keeps the memory until Release; false once it is closed.
func (h *hostMemory) Hold() bool {
	h.using.RLock()
	open := h.mem.Load() != nil
	if !open {
		h.using.RUnlock()
	}
	return open
}

// Release ends what Hold began.
func (h *hostMemory) Release() { h.using.RUnlock() }

// use makes Close wait for what l has enqueued by then. The caller holds h.
func (h *hostMemory) use(l *lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.lanes, l) {
		return
	}
	h.lanes = append(slices.DeleteFunc(h.lanes, func(l *lane) bool { return l.closed.Load() }), l)
}

// Close waits for the copies and gives the memory back.
func (h *hostMemory) Close() error {
	const op = "close host memory"
	h.using.Lock()
	defer h.using.Unlock()
	mem := h.Bytes()
	if mem == nil {
		return fmt.Errorf("%s: %s: host memory %w", h.be.dev.Name(), op, backend.ErrClosed)
	}
	for _, l := range h.lanes {
		if err := l.wait(); err != nil {
			return err
		}
	}
	h.mem.Store(nil)
	n := int64(len(mem))
	switch {
	case n == 0:
		return nil
	case !h.pinned:
		h.be.host.other(-n)
		return hostmemory.Discard(mem)
	}
	err := h.be.ctx.FreeHost(mem)
	if h.be.dev.Lost() {
		err = nil // was reported, and the memory goes with the context
	}
	return errors.Join(h.be.dev.Failed(op, err), h.be.host.unpin(n, false))
}
