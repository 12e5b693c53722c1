//go:build linux && cgo && !nocuda

package cuda

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/operands"
)

// owner is a Backend that says whose a buffer is; the caller holds mu.
type owner struct{ *Backend }

// Owns reports whether b is a live buffer of the device.
func (o owner) Owns(op, name string, b *Buffer) error { return o.owns(op, name, b) }

// checked is the operands of one operation.
type checked = operands.Operands[*Buffer, owner]

const (
	maxGridX = math.MaxInt32
	maxGridY = 65535
	// vectorBytes is what most loads and stores of the kernels move, and are aligned to.
	vectorBytes = 16
)

// arguments turns the operands of a call, which fit their buffers, into what kernels
// take, and remembers the first that kernels cannot.
type arguments struct {
	op  string
	err error
}

// count is a size in the 32 bits of a kernel's scalars.
func (a *arguments) count(name string, n int) uint32 {
	if uint64(n) > math.MaxUint32 && a.err == nil {
		a.err = backend.ErrUnsupported{Op: a.op, Why: fmt.Sprintf("%s: %d, kernels count to %d", name, n, uint32(math.MaxUint32))}
	}
	return uint32(n)
}

// heads is a number of heads, of which each is a row of a grid.
func (a *arguments) heads(name string, n int) uint32 {
	if n > maxGridY && a.err == nil {
		a.err = backend.ErrUnsupported{Op: a.op, Why: fmt.Sprintf("%d %s, a grid has at most %d", n, name, maxGridY)}
	}
	return uint32(n)
}

// aligned is an address that kernels read or write 16 bytes at a time, and so is
// every step bytes behind it.
func (a *arguments) aligned(name string, ptr driver.Ptr, step int64) driver.Ptr {
	if (uint64(ptr)|uint64(step))%vectorBytes != 0 && a.err == nil {
		a.err = backend.ErrShape{Op: a.op, What: fmt.Sprintf(
			"%s: address %#x with rows of %d bytes, need multiples of %d", name, uint64(ptr), step, vectorBytes)}
	}
	return ptr
}

// plane is the memory of a cache's keys or values.
func (a *arguments) plane(name string, p backend.Plane[*Buffer]) driver.Ptr {
	return a.aligned(name, p.Data.ptr, 0)
}

// rows is where vectors of width elements start, and the elements from one to the next.
func rows(r backend.Rows[*Buffer], width int) (ptr driver.Ptr, stride int64) {
	if r.Stride == 0 {
		r.Stride = width
	}
	return element(r.Buf, r.Offset), int64(r.Stride)
}

// alignedRows is rows of n vectors that kernels read or write 16 bytes at a time.
func (a *arguments) alignedRows(name string, r backend.Rows[*Buffer], n, width int) (driver.Ptr, int64) {
	ptr, stride := rows(r, width)
	step := stride * elementSize(r.Buf.dt)
	if n < 2 {
		step = 0 // there is no second row
	}
	return a.aligned(name, ptr, step), stride
}

// element is where element i of a buffer lies.
func element(b *Buffer, i int) driver.Ptr {
	return b.ptr + driver.Ptr(int64(i)*elementSize(b.dt))
}

// elementSize is the bytes of an element of a type of whole bytes.
func elementSize(dt backend.DType) int64 { return int64(dt.Bits() / 8) }

// address is the memory of an operand that may be absent, 0 where it is.
func address(o backend.Opt[*Buffer]) driver.Ptr {
	if !o.Set {
		return 0
	}
	return o.Buf.ptr
}

// gridOf is a grid that strides over x and y units, per a block; per is not 0.
func gridOf(x, perX, y, perY int64) [3]uint32 {
	blocks := func(n, per, most int64) uint32 { return uint32(max(min((n-1)/per+1, most), 1)) }
	return [3]uint32{blocks(x, perX, maxGridX), blocks(y, perY, maxGridY), 1}
}
