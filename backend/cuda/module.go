//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/variants"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// freeShared is the dynamic shared memory, in bytes, that a block has without asking.
const freeShared = 48 << 10

// kernel is a kernel on a device, ready to be launched.
type kernel struct {
	id       launch.Kernel
	fn       driver.Function
	threads  uint32 // of a block
	shared   uint32 // bytes of dynamic shared memory
	resident int    // blocks that the whole device runs at once
}

// modules is the compiled kernels on a device. A family of them, which is one
// module, is loaded when one of its kernels is first used: a process pays for what
// it needs. It is safe for concurrent use.
type modules struct {
	ctx      *driver.Context
	reclaim  func() error       // gives freed memory back to the device
	variants []*cudakernels.Set // that are looked into before what is embedded
	kernels  device.Kernels[launch.Kernel, kernel]
	latest   [launch.Ops]atomic.Pointer[kernel] // of each Op: the layers of a step ask for the same
	wide     func() map[launch.Kernel]bool      // kernels of warpgroups that there are

	mu     sync.Mutex
	loaded map[family]driver.Module // guarded by mu, and each added under its family's lock
}

// family is a module of a set.
type family struct {
	set  *cudakernels.Set
	name string
}

func newModules(ctx *driver.Context, reclaim func() error) *modules {
	m := &modules{ctx: ctx, reclaim: reclaim, loaded: map[family]driver.Module{}}
	for _, set := range variants.Chosen() {
		if set.Runs(ctx.Device.Major, ctx.Device.Minor) {
			m.variants = append(m.variants, set)
		}
	}
	m.kernels.Group = func(id launch.Kernel) string {
		_, entry, _ := m.entry(id.Symbol())
		return entry.Family
	}
	m.wide = sync.OnceValue(func() map[launch.Kernel]bool {
		there := map[launch.Kernel]bool{}
		for _, k := range launch.Wide() {
			if _, _, err := m.entry(k.Symbol()); err == nil {
				there[k] = true
			}
		}
		return there
	})
	return m
}

// entry finds a kernel in the first set that has it.
func (m *modules) entry(symbol string) (*cudakernels.Set, manifest.Kernel, error) {
	for _, set := range m.variants {
		if entry, ok := set.Find(symbol); ok {
			return set, entry, nil
		}
	}
	embedded, err := cudakernels.Load()
	if err != nil {
		return nil, manifest.Kernel{}, err
	}
	entry, ok := embedded.Find(symbol)
	if !ok {
		return nil, entry, backend.ErrUnsupported{Op: symbol, Why: "there is no such compiled kernel"}
	}
	return embedded, entry, nil
}

// known returns a kernel that was found before, and allocates nothing. Any other is device.Missing: where
// a device compiles the kernels by itself, loading one takes minutes.
func (m *modules) known(id launch.Kernel) (*kernel, error) {
	latest := &m.latest[id.Op]
	if k := latest.Load(); k != nil && k.id == id {
		return k, nil
	}
	if k := m.kernels.Known(id); k != nil {
		latest.Store(k)
		return k, nil
	}
	return nil, &device.Missing{Load: func() error {
		_, err := m.find(id)
		return err
	}}
}

// of is known for the kernel of a call.
func (m *modules) of(c *launch.Call) (*kernel, error) { return m.known(c.Kernel) }

// find returns a kernel, which it loads where need be.
func (m *modules) find(id launch.Kernel) (*kernel, error) { return m.kernels.Find(id, m.load) }

// load looks a kernel up in its module, one of a family at a time. Where that takes more memory than
// there is, it waits for what was freed.
func (m *modules) load(id launch.Kernel) (*kernel, error) {
	k, err := m.lookUp(id)
	if !errors.Is(err, backend.ErrOutOfMemory{}) {
		return k, err
	}
	if err := m.reclaim(); err != nil {
		return nil, err
	}
	return m.lookUp(id)
}

func (m *modules) lookUp(id launch.Kernel) (*kernel, error) {
	symbol := id.Symbol()
	set, entry, err := m.entry(symbol)
	if err != nil {
		return nil, err
	}
	if set.ABI != abi.Version {
		return nil, backend.ErrUnsupported{Op: symbol, Why: fmt.Sprintf(
			"the compiled kernels are of ABI %d and this program of %d; run make kernels-cuda", set.ABI, abi.Version)}
	}
	module, err := m.module(family{set, entry.Family})
	if err != nil {
		return nil, err
	}
	k := &kernel{id: id, threads: uint32(entry.Threads), shared: uint32(entry.Shared)}
	if k.fn, err = m.ctx.Function(module, symbol); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", symbol, err)
	}
	if entry.Shared > freeShared {
		if err := m.ctx.AllowShared(k.fn, entry.Shared); err != nil {
			return nil, fmt.Errorf("kernel %s: %d bytes of shared memory: %w", symbol, entry.Shared, err)
		}
	}
	blocks, err := m.ctx.Occupancy(k.fn, entry.Threads, entry.Shared)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", symbol, err)
	}
	k.resident = blocks * m.ctx.Device.Units
	return k, nil
}

// module is the module of a family.
func (m *modules) module(of family) (driver.Module, error) {
	m.mu.Lock()
	module, ok := m.loaded[of]
	m.mu.Unlock()
	if ok {
		return module, nil
	}
	image, err := of.set.Image(of.name)
	if err != nil {
		return 0, err
	}
	module, err = m.ctx.LoadModule(image)
	var refused driver.Error
	switch d := m.ctx.Device; {
	case err == nil:
	case errors.Is(err, backend.ErrOutOfMemory{}), errors.Is(err, backend.ErrLost), !errors.As(err, &refused), refused.Call != "cuModuleLoadData":
		return 0, fmt.Errorf("load kernels %s: %w", of.name, err)
	default:
		return 0, backend.ErrUnsupported{Op: "load kernels " + of.name, Why: fmt.Sprintf(
			"the driver refuses the code for %s on %s, compute capability %d.%d: %v",
			strings.Join(of.set.Architectures, ", "), d.Name, d.Major, d.Minor, err)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded[of] = module
	return module, nil
}

// close unloads everything and returns the first error. No kernel runs any more; a load that is under way
// is waited for, as no driver can be stopped in one.
func (m *modules) close() error {
	m.kernels.Drop(nil)
	for i := range m.latest {
		m.latest[i].Store(nil)
	}
	var first error
	for _, module := range m.loaded {
		if err := m.ctx.UnloadModule(module); err != nil && first == nil {
			first = err
		}
	}
	clear(m.loaded)
	return first
}
