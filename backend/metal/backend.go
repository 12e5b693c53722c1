//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// minMacOS is the first with version 3 of the language.
const minMacOS = 13

// Backend is an open Metal device. It is safe for concurrent use. The zero Backend is closed.
type Backend struct {
	dev     opened
	gpu     *mtl.Device
	pace    pace
	modules *modules
	masks   masks
	common  *mtl.Queue   // behind every import of an empty handle; nil until the first. Under the device's Lock.
	late    atomic.Int64 // bytes that were freed and that work under way may still keep
	asking  sync.Mutex   // held by kept, so that one who asks does not look like a stream at work to another

	untracked atomic.Bool // some buffer's uses are not ordered by Metal
}

var (
	_ backend.Backend[*Buffer]    = (*Backend)(nil)
	_ backend.HostAccess[*Buffer] = (*Backend)(nil)
)

// Open opens device i, in the system's order. A device may be opened several times; buffers of one
// Backend are ErrOtherDevice on another. ErrUnavailable says what is missing. The caller closes it.
func Open(i int) (*Backend, error) {
	gpus, err := mtl.Devices()
	if err != nil {
		return nil, err
	}
	name := nameOf(i)
	if i < 0 || i >= len(gpus) {
		err = backend.ErrUnavailable{Backend: name, Why: fmt.Sprintf("the system has %d devices", len(gpus))}
	} else if why := unfit(gpus[i].Info); why != "" {
		err = backend.ErrUnavailable{Backend: name, Why: why}
	}
	for other, gpu := range gpus {
		if err != nil || other != i {
			gpu.Release()
		}
	}
	if err != nil {
		return nil, err
	}
	gpu := gpus[i]
	be := &Backend{gpu: gpu, pace: newPace(gpu.Info), modules: newModules(gpu)}
	be.dev.Init(name, capsOf(gpu.Info))
	return be, nil
}

// unfit says why the kernels cannot run on a device; "" when they can.
func unfit(d mtl.Info) string {
	switch {
	case d.Major < minMacOS:
		return fmt.Sprintf("macOS %s, need %d or newer", d.OS, minMacOS)
	case !d.Apple7 || !d.Metal3:
		return d.Name + " is of a family before Apple7 and Metal 3, need an M1 or newer"
	case !d.Unified:
		return d.Name + " does not share the host's memory"
	}
	return ""
}

// Info describes the device. TotalMemory is the working set that the system recommends, FreeMemory
// what this process has left of it, including freed memory that is still in use: Alloc waits for
// that.
func (be *Backend) Info() backend.Info {
	if be.gpu == nil { // the zero Backend
		return backend.Info{}
	}
	info, usable := be.dev.Info()
	defer be.dev.End()
	d := be.gpu.Info
	info.Device, info.ComputeUnits, info.TotalMemory, info.HostVisible = d.Name, d.Cores, d.WorkingSet, true
	if usable {
		kept := be.kept() // before room, which may get from it meanwhile
		info.FreeMemory = min(be.room()+kept, d.WorkingSet)
	}
	return info
}

// Caps lists what the device accepts.
func (be *Backend) Caps() backend.Caps { return be.dev.Caps() }

// Close waits for the work of all streams and releases everything: buffers, streams, events and
// kernels. It works on a lost device, too. Closing twice is ErrClosed.
func (be *Backend) Close() error {
	return be.dev.Close(be.release, be.end)
}

// end gives back what is neither buffer nor stream nor event.
func (be *Backend) end() error {
	be.modules.close()
	if be.common != nil {
		be.common.Close()
	}
	be.gpu.Release()
	return nil
}
