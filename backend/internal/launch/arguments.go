package launch

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// vectorBytes is what most loads and stores of the kernels move, and are aligned to.
const vectorBytes = 16

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
	if n > MaxGridY && a.err == nil {
		a.err = backend.ErrUnsupported{Op: a.op, Why: fmt.Sprintf("%d %s, a grid has at most %d", n, name, MaxGridY)}
	}
	return uint32(n)
}

// aligned is a place that kernels read or write 16 bytes at a time, and so is
// every step bytes after it.
func (a *arguments) aligned(name string, p Place, step int64) Place {
	if (p.At|uint64(step))%vectorBytes != 0 && a.err == nil {
		a.err = backend.ErrArgument{Op: a.op, What: fmt.Sprintf(
			"%s: address %#x with rows of %d bytes, need multiples of %d", name, p.At, step, vectorBytes)}
	}
	return p
}

// plane is the memory of a cache's keys or values.
func plane[B Buffer](a *arguments, name string, p backend.Plane[B]) Place {
	return a.aligned(name, p.Data.Place(), 0)
}

// values is the plane that a cache's values are in, of which they are the first elements.
func values[B Buffer](v *backend.CacheView[B]) *backend.Plane[B] {
	if v.Latent {
		return &v.K
	}
	return &v.V
}

// rest is the elements of a key behind its latent, or all.
func rest[B Buffer](v *backend.CacheView[B]) int {
	if v.Latent {
		return v.K.Dim - v.V.Dim
	}
	return v.K.Dim
}

// latent is the flag of appends to a latent cache.
func latent[B Buffer](v *backend.CacheView[B]) uint32 {
	if v.Latent {
		return abi.Latent
	}
	return 0
}

// rows is where vectors of width elements of size bytes start, and the elements from one to the next.
func rows[B Buffer](r backend.Rows[B], width int, size int64) (at Place, stride int64) {
	if r.Stride == 0 {
		r.Stride = width
	}
	return r.Buf.Place().Plus(int64(r.Offset) * size), int64(r.Stride)
}

// alignedRows is rows of n vectors that kernels read or write 16 bytes at a time.
func alignedRows[B Buffer](a *arguments, name string, r backend.Rows[B], n, width int, size int64) (Place, int64) {
	at, stride := rows(r, width, size)
	step := stride * size
	if n < 2 {
		step = 0 // there is no second row
	}
	return a.aligned(name, at, step), stride
}

// element is where element i of a buffer lies.
func element[B Buffer](b B, i int) Place {
	return b.Place().Plus(int64(i) * elementSize(b.DType()))
}

// elementSize is the bytes of an element of a type of whole bytes.
func elementSize(dt backend.DType) int64 { return int64(dt.Bits() / 8) }

// optional is the memory of an operand that may be absent, none where it is.
func optional[B Buffer](o backend.Opt[B]) Place {
	if !o.Set {
		return Place{}
	}
	return o.Buf.Place()
}

// pairing is the flag of a rotation's pairs.
func pairing(p backend.Pairing) uint32 {
	if p == backend.Interleaved {
		return abi.Interleaved
	}
	return 0
}
