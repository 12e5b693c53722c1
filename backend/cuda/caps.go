//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
)

// formats are the combinations of types that there are kernels for.
var formats = []backend.Format{
	{Act: backend.F16, K: backend.F16, V: backend.F16},
	{Act: backend.BF16, K: backend.BF16, V: backend.BF16},
	{Act: backend.F32, K: backend.F32, V: backend.F32},
	{Act: backend.F32, K: backend.F16, V: backend.F16},
	{Act: backend.F32, K: backend.BF16, V: backend.BF16},
}

// headDims are the head dims of keys and values that there are kernels for.
var headDims = [][2]int{{64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 192}, {256, 256}, {192, 128}}

// capsOf is what a device accepts: any power of two as the size of a block, and ids
// in device memory that nobody reports on.
func capsOf(d driver.Device) backend.Caps {
	return backend.Caps{Formats: formats, HeadDims: headDims, MaxBuffer: d.Memory}
}
