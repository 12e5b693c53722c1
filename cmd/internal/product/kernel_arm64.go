//go:build !noasm

package product

import (
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// native is the kernel of kernels/asm/arm64, which every processor runs.
func native() []*kernel {
	return []*kernel{{name: "neon", speed: 16, width: maxWidth, blocks: [backend.NumDTypes]block{
		backend.F32: byFours(mul16F32NEON), backend.F16: byFours(mul16F16NEON),
		backend.BF16: byFours(mul16BF16NEON),
	}, lanes: goLanes, tile: tileGo, fold: foldGo}}
}

// byFours takes four rows at a time.
func byFours(f block) block {
	return func(c *float32, cStride int, shrink, a *float32, aStride int, b *byte, bStride, rows, depth int) {
		for r := 0; r < rows; r += 4 {
			to, from := unsafe.Add(unsafe.Pointer(c), 4*r*cStride), unsafe.Add(unsafe.Pointer(a), 4*r*aStride)
			f((*float32)(to), cStride, shrink, (*float32)(from), aStride, b, bStride, min(rows-r, 4), depth)
		}
	}
}
