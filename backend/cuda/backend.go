//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
)

// minMajor is the compute capability that the kernels need: asynchronous copies
// into shared memory and bf16 matrix products.
const minMajor = 8

// The kernels have machine code up to compute capability 9.x. Newer devices take
// the PTX, which only drivers of CUDA 11.8 and newer read.
const (
	lastMachineMajor = 9
	minPTXVersion    = 11080
)

// Backend is an open CUDA device. It is safe for concurrent use.
type Backend struct {
	name    string // "cuda:0"
	ctx     *driver.Context
	caps    backend.Caps
	modules *modules
	memory  memory
	lost    atomic.Bool

	// life is held by what makes or ends something on the device, and may wait for
	// the device; it is taken before mu.
	life sync.Mutex
	// mu orders Free and the ends of streams after the operations that enqueue: those
	// hold it for reading. Nobody waits for the device with it, but for room in a full
	// queue of the driver's, and for a copy that overlaps itself on a device without
	// memory pools.
	mu        sync.RWMutex
	closed    bool
	buffers   map[*Buffer]struct{} // live ones, as below
	streams   map[*stream]struct{}
	events    map[*event]struct{}
	allocated int64
}

var _ backend.Backend[*Buffer] = (*Backend)(nil)

// Open opens device i, in the driver's order. A device may be opened several
// times; the buffers of one Backend are foreign to another. ErrUnavailable says
// what is missing. The caller closes it.
func Open(i int) (*Backend, error) {
	lib, err := library()
	if err != nil {
		return nil, err
	}
	name := nameOf(i)
	if i < 0 || i >= lib.Len() {
		return nil, backend.ErrUnavailable{Backend: name, Why: fmt.Sprintf("the driver has %d devices", lib.Len())}
	}
	d, err := lib.Device(i)
	if err != nil {
		return nil, openError(name, err)
	}
	if why := unfit(lib, d); why != "" {
		return nil, backend.ErrUnavailable{Backend: name, Why: why}
	}
	ctx, err := lib.Retain(i)
	if err != nil {
		return nil, openError(name, err)
	}
	be := &Backend{name: name, ctx: ctx, caps: capsOf(d), modules: newModules(ctx),
		buffers: map[*Buffer]struct{}{}, streams: map[*stream]struct{}{}, events: map[*event]struct{}{}}
	if be.memory, err = newMemory(ctx); err != nil {
		_ = ctx.Release() // the first error explains more
		return nil, openError(name, err)
	}
	return be, nil
}

// openError is an error of the driver while a device is opened.
func openError(name string, err error) error {
	var missing backend.ErrUnavailable
	if errors.As(err, &missing) {
		return backend.ErrUnavailable{Backend: name, Why: missing.Why}
	}
	return fmt.Errorf("%s: open: %w", name, err)
}

// unfit says why the kernels cannot run on a device; "" when they can.
func unfit(lib *driver.Library, d driver.Device) string {
	switch {
	case d.Major < minMajor:
		return fmt.Sprintf("%s has compute capability %d.%d, need %d.0 or newer", d.Name, d.Major, d.Minor, minMajor)
	case d.Major > lastMachineMajor && lib.Version() < minPTXVersion:
		return fmt.Sprintf("driver too old for %s: it is for CUDA %s, need 11.8 (driver 520) or newer", d.Name, lib.VersionString())
	}
	return ""
}

// Info describes the device. FreeMemory is what the driver has left for all
// processes, and what this Backend has freed and still keeps.
func (be *Backend) Info() backend.Info {
	be.mu.RLock()
	defer be.mu.RUnlock()
	d := be.ctx.Device
	info := backend.Info{Name: be.name, Device: d.Name, Units: d.Units, TotalMemory: d.Memory,
		Allocated: be.allocated, Buffers: len(be.buffers)}
	if be.closed || be.lost.Load() {
		return info
	}
	if free, _, err := be.ctx.MemInfo(); err == nil { // a loss is for a caller who gets an error to find
		info.FreeMemory = free + be.memory.idle(be.allocated)
	}
	return info
}

// Caps says what the device accepts.
func (be *Backend) Caps() backend.Caps { return be.caps }

// Close waits for the work of all streams and gives everything back: buffers,
// streams, events, kernels, and the reference to the context. It does so on a lost
// device, too, as far as the driver lets it. Closing twice is ErrClosed.
func (be *Backend) Close() error {
	be.life.Lock()
	defer be.life.Unlock()
	be.mu.Lock()
	if be.closed {
		be.mu.Unlock()
		return fmt.Errorf("%s: close: device %w", be.name, backend.ErrClosed)
	}
	be.closed = true
	buffers, streams, events := be.buffers, be.streams, be.events
	be.buffers, be.streams, be.events, be.allocated = nil, nil, nil, 0
	be.mu.Unlock()

	known := be.lost.Load() // and so reported
	var errs []error
	done := func(err error) { errs = append(errs, be.failed("close", err)) }
	for s := range streams { // all of them, before the first is destroyed: one may wait for another
		done(be.ctx.Sync(s.cu))
	}
	for s := range streams {
		done(s.destroy())
	}
	for e := range events {
		done(e.destroy())
	}
	for b := range buffers {
		b.freed = true
		if b.ptr != 0 && !b.imported {
			done(be.memory.release(b.ptr))
		}
	}
	done(be.modules.close())
	done(be.memory.close())
	done(be.ctx.Release())
	for _, err := range errs {
		if err != nil && !known {
			return err
		}
	}
	return nil
}

// begin starts an operation on s: until end, no buffer is freed, s is not
// destroyed, and the device stays open.
func (be *Backend) begin(op string, s backend.Stream) (checked, *stream, error) {
	be.mu.RLock()
	ops := checked{Owner: owner{be}, Op: op}
	err := be.open(op)
	var own *stream
	if err == nil {
		own, err = be.onStream(op, s)
	}
	if err != nil {
		be.mu.RUnlock()
	}
	return ops, own, err
}

func (be *Backend) end() { be.mu.RUnlock() }

// open reports whether the device is, and is not lost; the caller holds mu.
func (be *Backend) open(op string) error {
	switch {
	case be.closed:
		return fmt.Errorf("%s: %s: device %w", be.name, op, backend.ErrClosed)
	case be.lost.Load():
		return fmt.Errorf("%s: %s: %w", be.name, op, backend.ErrLost)
	}
	return nil
}

// failed says which operation the driver refused, nil for nil. An error that no
// call can repair makes the device lost. Errors of other kinds pass as they are.
func (be *Backend) failed(op string, err error) error {
	if err == nil {
		return nil // before anything allocates
	}
	var refused driver.Error
	if !errors.As(err, &refused) {
		return err
	}
	if errors.Is(err, backend.ErrLost) {
		be.lost.Store(true)
	}
	return fmt.Errorf("%s: %s: %w", be.name, op, err)
}
