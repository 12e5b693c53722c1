package product

import (
	"os"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// kernel is the inner loops for one kind of processor, by the types of weights.
type kernel struct {
	name  string
	speed int // about how many multiplications a nanosecond

	width  int                      // rows of a panel
	blocks [backend.NumDTypes]block // for panels of numbers; none where numbers are multiplied as they are stored

	// The fields below are for rows as they are stored; sums are kept in lanes, at most maxLanes. tile adds to sums, [rows, together, lanes], the
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
var portable = kernel{name: "go", speed: 2, lanes: goLanes, tile: tileGo, fold: foldGo,
	numbers: [backend.NumDTypes]*numbers{backend.F32: {}, backend.F16: {}, backend.BF16: {}}}
