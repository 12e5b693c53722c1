//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
)

// minMajor is the compute capability that the kernels need: asynchronous copies
// into shared memory and bf16 matrix products.
const minMajor = 8

// The kernels have machine code up to compute capability 9.x. Newer devices take
// the PTX, which only drivers of CUDA 12.4 and newer read.
const (
	lastMachineMajor = 9
	minPTXVersion    = 12040
)

// Backend is an open CUDA device. It is safe for concurrent use. The zero Backend is closed.
type Backend struct {
	dev     device.Device[*Buffer, *stream, *event, driver.Error]
	ctx     *driver.Context
	modules *modules
	maps    maps
	memory  memory
	host    host
}

var _ backend.Backend[*Buffer] = (*Backend)(nil)

// Open opens device i, in the driver's order. A device may be opened several times; buffers of one
// Backend are ErrOtherDevice on another. ErrUnavailable says what is missing. The caller closes it.
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
	limit, err := pinnedLimit()
	if err != nil {
		return nil, err
	}
	ctx, err := lib.Retain(i)
	if err != nil {
		return nil, openError(name, err)
	}
	be := &Backend{ctx: ctx, host: host{release: ctx.Release, use: backend.HostUse{Limit: limit}}}
	if be.memory, err = newMemory(ctx); err != nil {
		_ = ctx.Release() // the first error explains more
		return nil, openError(name, err)
	}
	be.modules = newModules(ctx, be.memory.reclaim)
	be.dev.Init(name, capsOf(d))
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
		return fmt.Sprintf("driver too old for %s: it is for CUDA %s, need 12.4 (driver 550) or newer", d.Name, lib.VersionString())
	}
	return ""
}

// Info describes the device. FreeMemory is the memory that is free for all processes, and that
// which this Backend keeps for reuse.
func (be *Backend) Info() backend.Info {
	if be.ctx == nil { // the zero Backend
		return backend.Info{}
	}
	info, usable := be.dev.Info()
	defer be.dev.End()
	d := be.ctx.Device
	info.Device, info.ComputeUnits, info.TotalMemory, info.Host = d.Name, d.Units, d.Memory, be.host.now()
	if !usable {
		return info
	}
	if free, _, err := be.ctx.MemInfo(); err == nil { // a loss is for a caller who gets an error to find
		info.FreeMemory = free + be.memory.idle(info.Allocated)
	}
	return info
}

// Caps lists what the device accepts.
func (be *Backend) Caps() backend.Caps { return be.dev.Caps() }

// Close waits for the work of all streams and releases everything: buffers, streams, events,
// kernels, and, once all page-locked memory of HostAlloc is closed, the reference to the context. On a lost device it releases what the driver allows.
// Closing twice is ErrClosed.
func (be *Backend) Close() error {
	return be.dev.Close(be.release, be.modules.close, be.memory.close, be.host.close)
}
