package backendtest

import (
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Faulty is a device that fails when a test says so, for tests of what a program does then:
//
//	dev := backendtest.NewFaulty(be)
//	pool, err := kvcache.NewPool(dev, cfg)
//	...
//	dev.SetFault(backendtest.Nth(3, backend.ErrOutOfMemory, backendtest.OpAlloc))
//
// A call that fails has done nothing, as the contract wants it. Around a Late device calls
// fail where they are made, under one where they run. It is safe for concurrent
// use. It has none of the rare abilities (backend.HostAccessOf, backend.Capture).
type Faulty[B backend.Buffer] struct {
	backend.Backend[B]
	mu     sync.Mutex
	fault  Fault
	lost   bool
	memory int64 // bytes that may be allocated; below 0: no limit
}

// NewFaulty returns be as a device that does not fail yet. Streams and events of be itself
// must not be mixed with those of the result, whose Close closes be.
func NewFaulty[B backend.Buffer](be backend.Backend[B]) *Faulty[B] {
	return &Faulty[B]{Backend: be, memory: -1}
}

// SetFault has every call from now on asked about; nil ends it.
func (f *Faulty[B]) SetFault(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Lose loses the device: from now on every call is backend.ErrLost, and only Close gives
// back what was on it. It cannot be found again.
func (f *Faulty[B]) Lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = true
}

// SetMemory limits what the device has allocated at a time: an Alloc beyond it is
// backend.ErrMemory, which is backend.ErrOutOfMemory. What is allocated already stays. Below 0: no limit.
func (f *Faulty[B]) SetMemory(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memory = bytes
}

// Info is that of the device under it, with the memory that SetMemory leaves.
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

// Under is a stream of f as the device under it knows it: what Late.Hold and Late.Enqueue want.
func (f *Faulty[B]) Under(s backend.Stream) (backend.Stream, error) {
	own, ok := s.(*faultyStream[B])
	if !ok || own == nil || own.dev != f {
		return nil, fmt.Errorf("backendtest: stream %w", backend.ErrForeign)
	}
	return own.under, nil
}

// under is the stream of the device under f, if nothing is wrong with the call.
func (f *Faulty[B]) under(op Op, s backend.Stream) (backend.Stream, error) {
	own, ok := s.(*faultyStream[B])
	if !ok || own == nil || own.dev != f {
		return nil, fmt.Errorf("backend: %s: stream %w", op, backend.ErrForeign)
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
	return backend.ErrMemory{Op: string(OpAlloc), Bytes: bytes, Max: left}
}
