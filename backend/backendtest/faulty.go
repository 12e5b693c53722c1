package backendtest

import (
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Faulty is a device that fails when a test says so, to test how a program handles it:
//
//	dev := backendtest.NewFaulty(be)
//	pool, err := kvcache.NewPool(dev, cfg)
//	...
//	dev.SetFault(backendtest.Nth(3, backend.ErrOutOfMemory, backendtest.OpAlloc))
//
// A call that fails has changed nothing, as the contract demands. When a Faulty wraps a Late device
// calls fail when they are made; when a Late wraps a Faulty they fail when they run. It is safe for
// concurrent use. It does not offer backend.HostAccess or backend.Capture.
type Faulty[B backend.Buffer] struct {
	backend.Backend[B]
	mu     sync.Mutex
	fault  Fault
	lost   bool
	memory int64 // bytes that may be allocated; below 0: no limit
}

// NewFaulty returns be as a device that does not fail yet. Streams and events of be must not be
// used with the result, and Close of the result closes be.
func NewFaulty[B backend.Buffer](be backend.Backend[B]) *Faulty[B] {
	return &Faulty[B]{Backend: be, memory: -1}
}

// SetFault sets the fault that decides about every call from now on; nil ends it.
func (f *Faulty[B]) SetFault(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Lose makes the device lost: from now on every call is backend.ErrLost, and only Close releases
// what was on it.
func (f *Faulty[B]) Lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = true
}

// SetMemory limits the memory that is allocated at a time: an Alloc beyond it is
// backend.ErrOutOfMemory. What is allocated already stays. A negative number is no limit.
func (f *Faulty[B]) SetMemory(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memory = bytes
}

// Info is that of the wrapped device, with the memory that SetMemory leaves.
func (f *Faulty[B]) Info() backend.Info {
	info := f.Backend.Info()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.memory >= 0 {
		info.TotalMemory = min(f.memory, info.TotalMemory)
		info.FreeMemory = max(0, min(info.FreeMemory, f.memory-info.Allocated))
	}
	return info
}

// present is nil, or the error of a device that was lost.
func (f *Faulty[B]) present(op Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost {
		return fmt.Errorf("backendtest: %s: %w", op, backend.ErrLost)
	}
	return nil
}

// ask is what is wrong with a call.
func (f *Faulty[B]) ask(op Op, s backend.Stream) error {
	if err := f.present(op); err != nil {
		return err
	}
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(Call{op, s}) // without the lock: it may use the device
}

// Underlying is the wrapped device's stream of s, as Late.Hold and Late.Enqueue need it.
func (f *Faulty[B]) Underlying(s backend.Stream) (backend.Stream, error) {
	own, ok := s.(*faultyStream[B])
	if !ok || own == nil || own.dev != f {
		return nil, fmt.Errorf("backendtest: stream %w", backend.ErrOtherDevice)
	}
	return own.under, nil
}

// under is the stream of the device under f, if nothing is wrong with the call.
func (f *Faulty[B]) under(op Op, s backend.Stream) (backend.Stream, error) {
	own, ok := s.(*faultyStream[B])
	if !ok || own == nil || own.dev != f {
		return nil, fmt.Errorf("backend: %s: stream %w", op, backend.ErrOtherDevice)
	}
	return own.under, f.ask(op, s)
}

// room is nil, or the error of memory that SetMemory does not leave.
func (f *Faulty[B]) room(dt backend.DType, n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	bytes, ok := dt.Size(n)
	left := max(0, f.memory-f.Backend.Info().Allocated)
	if f.memory < 0 || !ok || bytes <= left {
		return nil
	}
	return backend.ErrOutOfMemory{Op: string(OpAlloc), Bytes: bytes, Max: left}
}

// Prepare is that of the wrapped device.
func (f *Faulty[B]) Prepare(p backend.Preparation) error { return backend.Prepare(f.Backend, p) }
