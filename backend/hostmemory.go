package backend

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
)

// HostMemory is memory of the host that a device copies from and to.
type HostMemory interface {
	// Bytes is the memory, also once the device is closed; nil after Close.
	Bytes() []byte
	// Pinned reports whether copies go on while the host goes on. Else Pack and Unpack return when they are done.
	Pinned() bool
	// Close waits for the copies from and to the memory, and releases it: its Bytes must not be used any more. Closing
	// twice is ErrClosed.
	Close() error
}

// HostUse is the memory that HostAlloc has given and that was not closed, in bytes, and how often it was not pinned.
type HostUse struct {
	Pinned    int64  // pinned memory
	Other     int64  // other memory
	Limit     int64  // the most that is pinned; 0: the device pins none
	OverLimit uint64 // calls that got other memory, because more would have been pinned than Limit
	Refused   uint64 // calls that got other memory, because the system had no more to pin
}

// HostAlloc returns n bytes of host memory, zeroed, as the device copies fastest. A device that cannot have as much pinned
// memory gives other memory, and counts that (Info.Host). ErrArgument when n is negative, ErrOutOfMemory when there is no memory at all.
func HostAlloc[B Buffer](be Backend[B], n int64) (HostMemory, error) {
	if n < 0 || int64(int(n)) != n {
		return nil, ErrArgument{Op: "host alloc", What: fmt.Sprintf("%d bytes", n)}
	}
	if d, ok := be.(BlockIO[B]); ok {
		return d.HostAlloc(n)
	}
	return newPageable(n)
}

// holder is host memory that is there from Hold, which is false once it is closed, until Release: Close waits.
type holder interface {
	Hold() bool
	Release()
}

// pageable is memory that a device neither reads nor writes by itself.
type pageable struct {
	using sync.RWMutex           // held for reading by copies
	mem   atomic.Pointer[[]byte] // nil: closed
}

func newPageable(n int64) (HostMemory, error) {
	mem, err := []byte{}, error(nil)
	if n > 0 {
		mem, err = hostmemory.Obtain(int(n))
	}
	if err != nil {
		return nil, fmt.Errorf("backend: host alloc: %d bytes: %w: %w", n, ErrOutOfMemory{}, err)
	}
	h := new(pageable)
	h.mem.Store(&mem)
	return h, nil
}

func (h *pageable) Pinned() bool { return false }

func (h *pageable) Bytes() []byte {
	if mem := h.mem.Load(); mem != nil {
		return *mem
	}
	return nil
}

func (h *pageable) Hold() bool {
	h.using.RLock()
	open := h.mem.Load() != nil
	if !open {
		h.using.RUnlock()
	}
	return open
}

func (h *pageable) Release() { h.using.RUnlock() }

func (h *pageable) Close() error {
	h.using.Lock()
	defer h.using.Unlock()
	switch mem := h.mem.Swap(nil); {
	case mem == nil:
		return fmt.Errorf("backend: close: host memory %w", ErrClosed)
	case len(*mem) == 0:
		return nil
	default:
		return hostmemory.Discard(*mem)
	}
}

func (e *erased[B]) HostAlloc(n int64) (HostMemory, error) { return HostAlloc(e.be, n) }
