package product

import (
	"os"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// maxWidth is the most rows of weights that any kernel's panel has.
const maxWidth = 64

// block adds a [rows, depth] times a panel b to c [rows, width of the panel], or
// where shrink, which points to ones, is nil sets c to that. Strides are in elements. Products are added one after the other.
type block func(c *float32, cStride int, shrink, a *float32, aStride int, b *byte, bStride, rows, depth int)

// kernel is the inner loops for one kind of processor, by the types of weights.
type kernel struct {
	name        string
	speed       int                        // about how many multiplications a nanosecond
	step, width int                        // rows of a panel: a multiple of step, at most width
	blocks      [backend.NumDTypes][]block // for panels of one step, of two, ...; none where there are numbers

	// What follows is for rows as they are stored, whose sums have lanes, at most maxLanes. tile adds to sums, [rows, together, lanes], the
	// products of rows of x with together rows of decoded weights, each lane those of its columns. cols is a multiple of lanes.
	lanes   int
	tile    func(sums, x *float32, xStride int, w *float32, wStride, rows, cols int)
	fold    func(out, sums *float32, n int) // sets out, [n, together], to the sums of the lanes of sums
	numbers [backend.NumDTypes]*numbers
	formats map[string]format // by what ggml calls a type
}

// available is the kernels that this processor runs, the fastest first.
var available = append(native(), &portable)

// chosen is the kernel that the backend for the CPU would take: see cpu.EnvKernels.
func chosen() *kernel {
	name := os.Getenv(cpu.EnvKernels)
	for _, k := range available {
		if k.name == name {
			return k
		}
	}
	return available[0]
}

// portable is the kernel in Go.
var portable = kernel{name: "go", speed: 2, step: goWidth, width: goWidth, blocks: [backend.NumDTypes][]block{
	backend.F32:  {blockF32},
	backend.F16:  {blockOf(func(w uint16) float32 { return quant.FromF16(w) })},
	backend.BF16: {blockOf(func(w uint16) float32 { return quant.FromBF16(w) })},
}, lanes: goLanes, tile: tileGo, fold: foldGo}

const goWidth = 8

func blockF32(c *float32, cStride int, shrink, a *float32, aStride int, b *byte, _, rows, depth int) {
	w := unsafe.Slice((*[goWidth]float32)(unsafe.Pointer(b)), depth)
	for r := range rows {
		out := (*[goWidth]float32)(unsafe.Add(unsafe.Pointer(c), 4*r*cStride))
		var s [goWidth]float32
		if shrink != nil {
			s = *out
		}
		s0, s1, s2, s3, s4, s5, s6, s7 := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
		for i, x := range unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(a), 4*r*aStride)), depth) {
			v := &w[i]
			s0, s1, s2, s3 = s0+x*v[0], s1+x*v[1], s2+x*v[2], s3+x*v[3]
			s4, s5, s6, s7 = s4+x*v[4], s5+x*v[5], s6+x*v[6], s7+x*v[7]
		}
		*out = [goWidth]float32{s0, s1, s2, s3, s4, s5, s6, s7}
	}
}

// blockOf is a block of weights that have to be decoded, which it does once for all rows.
func blockOf[W any](decode func(W) float32) block {
	return func(c *float32, cStride int, shrink, a *float32, aStride int, b *byte, _, rows, depth int) {
		for i, codes := range unsafe.Slice((*[goWidth]W)(unsafe.Pointer(b)), depth) {
			var w [goWidth]float32
			for j, code := range codes {
				w[j] = decode(code)
			}
			addColumn(c, cStride, a, aStride, &w, i, rows, i == 0 && shrink == nil)
		}
	}
}

// addColumn adds column i of a times that row of b to all rows of c, or to zeros.
func addColumn(c *float32, cStride int, a *float32, aStride int, w *[goWidth]float32, i, rows int, fresh bool) {
	for r := range rows {
		out := (*[goWidth]float32)(unsafe.Add(unsafe.Pointer(c), 4*r*cStride))
		if fresh {
			*out = [goWidth]float32{}
		}
		x := *(*float32)(unsafe.Add(unsafe.Pointer(a), 4*(r*aStride+i)))
		for j := range out {
			out[j] += x * w[j]
		}
	}
}
