//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"fmt"
	"os"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/msl"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
	metalkernels "github.com/ferrumkv/ferrumkv/kernels/metal"
)

// What a core of Apple's GPUs runs at once, by which a plan divides its work: the
// framework does not tell. Attention needs about a hundred registers of 4 bytes a thread, and a
// core has some 208 KB of them: 208 KB / (100 × 4 bytes) = 532 threads, in whole threadgroups of
// 128 or 256 that is 512. Registers and memory are what was measured on the M1 and M2
// (github.com/philipturner/metal-benchmarks).
const (
	coreThreads = 512
	coreMemory  = 60 << 10 // bytes of threadgroup memory
	someCores   = 8        // where their number is unknown
)

// simdWidth is the threads of a SIMD group, as the kernels are written.
const simdWidth = 32

// kernel is a kernel on a device, ready to be launched.
type kernel struct {
	pipeline mtl.Pipeline
	threads  uint32 // of a threadgroup
	resident int    // threadgroups that the whole device runs at once
}

// variant names a kernel with its function constants, of abi.h and of storage.go: all that a pipeline
// depends on.
type variant struct {
	kernel    launch.Kernel
	constants uint32
}

// modules is the kernels on a device. One is compiled when it is first used: a process
// pays for what it needs. It is safe for concurrent use.
type modules struct {
	gpu       *mtl.Device
	kernels   device.Kernels[variant, kernel]
	tried     bool // whether there is a library of all kernels; this and the rest are used by load alone
	whole     mtl.Library
	libraries map[metalkernels.Instance]mtl.Library
}

func newModules(gpu *mtl.Device) *modules {
	return &modules{gpu: gpu, libraries: map[metalkernels.Instance]mtl.Library{}}
}

// known returns a kernel that was found before, and allocates nothing. Any other is device.Missing: the
// system compiles it, which takes long.
func (m *modules) known(v variant) (*kernel, error) {
	if k := m.kernels.Known(v); k != nil {
		return k, nil
	}
	return nil, &device.Missing{Load: func() error {
		_, err := m.get(v)
		return err
	}}
}

// of is known for the kernel of a call.
func (m *modules) of(c *launch.Call) (*kernel, error) { return m.known(variantOfCall(c)) }

func variantOfCall(c *launch.Call) variant {
	return variant{c.Kernel, c.Constants | stored(c)}
}

// get returns a kernel, which it has compiled where need be.
func (m *modules) get(v variant) (*kernel, error) { return m.kernels.Find(v, m.load) }

// load makes the pipeline of a variant, one at a time.
func (m *modules) load(v variant) (*kernel, error) {
	symbol, threads := v.kernel.Symbol(), msl.Threads(v.kernel)
	p, err := m.pipeline(v, symbol)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", symbol, err)
	}
	if p.Width != simdWidth || p.Threads < int(threads) {
		p.Release()
		return nil, backend.ErrUnsupported{Op: symbol, Why: fmt.Sprintf(
			"%s runs it with at most %d threads in SIMD groups of %d, need %d in groups of %d", m.gpu.Info.Name, p.Threads, p.Width, threads, simdWidth) + validated()}
	}
	groups := max(min(coreThreads/int(threads), coreMemory/max(p.Memory, 1)), 1)
	return &kernel{pipeline: p, threads: threads, resident: groups * cores(m.gpu.Info)}, nil
}

// validated is the likely reason for which a kernel has too few threads where it is one: Metal's
// validation becomes a part of kernels, and they need more registers.
func validated() string {
	if on := os.Getenv(shaderValidation); on == "" || on == "0" {
		return ""
	}
	return "; " + shaderValidation + " is set, and its checks take registers: run without it"
}

const shaderValidation = "MTL_SHADER_VALIDATION" // man MetalValidation

// pipeline looks for the kernel in the library of all, if there is one, and else compiles
// its source.
func (m *modules) pipeline(v variant, symbol string) (mtl.Pipeline, error) {
	if !m.tried {
		m.tried = true
		if data, ok := library(); ok {
			m.whole, _ = m.gpu.LoadLibrary(data) // one for a newer system does not load, which the source makes up for
		}
	}
	if m.whole != 0 {
		if p, err := m.gpu.NewPipeline(m.whole, symbol, v.constants, constants); err == nil {
			return p, nil
		}
	}
	i := msl.Instance(v.kernel)
	l, ok := m.libraries[i]
	if !ok {
		source, err := i.Source()
		if err != nil {
			return mtl.Pipeline{}, err
		}
		if l, err = m.gpu.NewLibrary(source, i.BFloat()); err != nil {
			return mtl.Pipeline{}, err
		}
		m.libraries[i] = l
	}
	return m.gpu.NewPipeline(l, symbol, v.constants, constants)
}

// library is the embedded library of all kernels, replaced by tests.
var library = metalkernels.Library

// close gives everything back. No kernel is launched any more; one that is being compiled is waited for.
func (m *modules) close() {
	m.kernels.Drop(func(k *kernel) { k.pipeline.Release() })
	for _, l := range m.libraries {
		l.Release()
	}
	clear(m.libraries)
	if m.whole != 0 {
		m.whole.Release()
		m.whole = 0
	}
}
