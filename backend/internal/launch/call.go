// Package launch says what an operation launches, from its checked parameters, for
// any GPU: the kernels, their grids, and their buffers and scalars in the order of
// kernels/abi.h. It knows no driver. The comments of the operations are those of the GPU
// backends' methods, too, which are generated with them.
//
// Nothing here allocates unless it fails.
package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Place is a point in device memory. CUDA: Memory is 0 and At the address. Metal:
// Memory is the MTLBuffer and At the bytes before the point. The zero Place is none.
type Place struct {
	Memory uintptr
	At     uint64
}

// Plus is the place bytes after p.
func (p Place) Plus(bytes int64) Place {
	p.At += uint64(bytes)
	return p
}

// Buffer is memory of a GPU. An empty buffer's Place is none.
type Buffer interface {
	backend.Buffer
	Place() Place
}

// Call is one launch of a kernel.
type Call struct {
	Kernel Kernel
	Grid   [3]uint32
	// Constants are the function constants of a Metal kernel: bit i is constant i of
	// kernels/abi.h. They say what the operation has, for each of its kernels the same.
	Constants uint32

	count   int
	size    int
	mapped  int
	buffers [abi.MaxBuffers]Place
	args    [abi.MaxArgs]byte
	maps    [MaxMaps]Map
}

// Map describes a plane of keys or values to the device's copy engine: Rows rows of Width elements of 16 bits.
type Map struct {
	At    Place
	Rows  uint64
	Width uint32
	Type  backend.DType
}

// MaxMaps is the most maps of a call: of keys and of values.
const MaxMaps = 2

// Buffers is what the kernel takes; one that the call does not have is none.
func (c *Call) Buffers() []Place { return c.buffers[:c.count] }

// Maps is what the kernel takes after its scalars.
func (c *Call) Maps() []Map { return c.maps[:c.mapped] }

// Args is the kernel's struct of scalars.
func (c *Call) Args() []byte { return c.args[:c.size] }

// MaxCalls is the most calls of an operation: attention with a kernel for each kind
// of item, one that merges and one for the attention scores.
const MaxCalls = int(plan.Kinds) + 2

// Calls is what one operation launches, one after another. It is large: keep one for
// each stream and reuse it. The functions of this package replace what it holds, and
// leave it empty where they fail or nothing is to be done.
type Calls struct {
	// Status returns the word of memory in which kernels that quantize collect abi.Keys
	// and abi.Values where a value is not finite. The owner of the stream sets it.
	Status func() (Place, error)

	n    int
	list [MaxCalls]Call
}

// List is the calls, valid until c is used again.
func (c *Calls) List() []Call { return c.list[:c.n] }

func (c *Calls) clear() { c.n = 0 }

// add appends a call. It keeps copies of args and buffers.
func (c *Calls) add(k Kernel, grid [3]uint32, constants uint32, args []byte, buffers ...Place) {
	call := &c.list[c.n]
	call.Kernel, call.Grid, call.Constants = k, grid, constants
	call.count, call.size, call.mapped = copy(call.buffers[:], buffers), copy(call.args[:], args), 0
	c.n++
}

// mapped gives the call that was added last its maps.
func (c *Calls) mapped(maps ...Map) {
	call := &c.list[c.n-1]
	call.mapped = copy(call.maps[:], maps)
}
