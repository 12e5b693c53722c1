package backendtest

import (
	"bytes"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// guard is the number of elements that a region has on either side of its
// payload. It keeps rows aligned to 16 elements.
const guard = 16

// region is a device buffer and the image of what it must hold, bit for bit,
// when an operation is over. Checks write into the image what an operation has
// to write into the buffer.
type region[B backend.Buffer] struct {
	name    string
	buf     B
	dt      backend.DType
	lead    int    // guard elements before the payload
	n       int    // elements of payload
	image   []byte // guards included
	scratch bool   // the payload may hold anything; the guards may not
}

// region allocates n elements of poison between guards. A lead guard is possible
// for operands that have an offset.
func (r *rig[B]) region(name string, dt backend.DType, lead, n int) *region[B] {
	return r.allocate(name, dt, lead, n, guard)
}

// exact allocates n elements of poison without guards, for operands that are too
// short on purpose.
func (r *rig[B]) exact(name string, dt backend.DType, n int) *region[B] {
	return r.allocate(name, dt, 0, n, 0)
}

func (r *rig[B]) allocate(name string, dt backend.DType, lead, n, trail int) *region[B] {
	total := lead + n + trail
	buf := r.memory(name, dt, total)
	reg := &region[B]{name: name, buf: buf, dt: dt, lead: lead, n: n, image: poison(dt, total)}
	r.regions = append(r.regions, reg)
	return reg
}

// constant is a region that holds values, to be used from its first element on.
func constant[B backend.Buffer, T backend.Number](r *rig[B], name string, dt backend.DType, values []T) *region[B] {
	data := backend.BytesOf(values)
	reg := r.region(name, dt, 0, len(data)*8/dt.Bits())
	copy(reg.image, data)
	return reg
}

// at is where element i of the payload lies in the image.
func (reg *region[B]) at(i int) int { return bytesOf(reg.dt, reg.lead+i) }

func (reg *region[B]) dtype() backend.DType { return reg.dt }

// set writes into the image from element i of the payload on.
func (reg *region[B]) set(i int, data []byte) { copy(reg.image[reg.at(i):], data) }

// part is n elements of data, which has the layout of the image.
func (reg *region[B]) part(data []byte, i, n int) []byte { return data[reg.at(i):reg.at(i+n)] }

// push uploads the images of all regions.
func (r *rig[B]) push() {
	for _, reg := range r.regions {
		require.NoError(r, r.be.Upload(r.s, reg.buf, 0, reg.image), "uploading %s", reg.name)
	}
}

// fetch is the present content of a region, in the layout of the image.
func (r *rig[B]) fetch(reg *region[B]) []byte {
	out := make([]byte, len(reg.image))
	require.NoError(r, r.be.Download(r.s, out, reg.buf, 0), "downloading %s", reg.name)
	return out
}

// verify compares every region with its image.
func (r *rig[B]) verify() {
	require.NoError(r, r.s.Sync())
	for _, reg := range r.regions {
		require.NoError(r, reg.diff(r.fetch(reg)))
	}
}

// diff reports the first element of got that is not what the image says.
func (reg *region[B]) diff(got []byte) error {
	want := reg.image
	if reg.scratch {
		got, want = got[reg.at(reg.n):], want[reg.at(reg.n):]
	}
	if bytes.Equal(got, want) {
		return nil
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	size := max(1, reg.dt.Bits()/8)
	i -= i % size
	element, where := i*8/reg.dt.Bits()-reg.lead, "payload"
	if reg.scratch {
		element += reg.lead + reg.n
	}
	if element < 0 || element >= reg.n {
		where = "guard"
	}
	return fmt.Errorf("%s: element %d (%s) of %d is %x, want %x", reg.name, element, where, reg.n, got[i:i+size], want[i:i+size])
}

// vectors is a region of rows along a token axis.
type vectors[B backend.Buffer] struct {
	*region[B]
	count, width, stride int
	dense                bool
}

// vectors allocates count rows of width elements. Strided rows start at an offset
// and leave gaps of poison between them.
func (r *rig[B]) vectors(name string, dt backend.DType, count, width int, strided bool) *vectors[B] {
	v := &vectors[B]{count: count, width: width, stride: width, dense: !strided}
	lead := 0
	if strided {
		lead, v.stride = guard, (width+15)/16*16+2*guard
	}
	v.region = r.region(name, dt, lead, max(0, (count-1)*v.stride+width))
	return v
}

// rows is the operand.
func (v *vectors[B]) rows() backend.Rows[B] {
	if v.dense {
		return backend.Rows[B]{Buf: v.buf, Offset: v.lead}
	}
	return backend.Rows[B]{Buf: v.buf, Offset: v.lead, Stride: v.stride}
}

// put sets row i of the image.
func (v *vectors[B]) put(i int, values []float32) { v.set(i*v.stride, encode(v.dt, values)) }

// fill sets every row of the image to values of the standard normal distribution.
func (v *vectors[B]) fill(r *rig[B]) *vectors[B] {
	for i := range v.count {
		v.put(i, r.normal(v.width))
	}
	return v
}

// row is row i of data, which has the layout of the image.
func (v *vectors[B]) row(data []byte, i int) []byte { return v.part(data, i*v.stride, v.width) }

// values is all rows of data, one after another.
func (v *vectors[B]) values(data []byte) []float64 {
	out := make([]float64, 0, v.count*v.width)
	for i := range v.count {
		out = append(out, widen(decode(v.dt, v.row(data, i)))...)
	}
	return out
}

// accept takes the rows of got over into the image, once they have been compared.
func (v *vectors[B]) accept(got []byte) {
	for i := range v.count {
		v.set(i*v.stride, v.row(got, i))
	}
}
