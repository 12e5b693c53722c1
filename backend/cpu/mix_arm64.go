//go:build !noasm

package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// mixKernel is mix for up to four rows.
type mixKernel func(acc *float32, shrink *float32, p *float32, stride int, rows int, values *byte, scales *uint32, n int, dim int, ahead *byte)

// mixNEON sets mix to assembly.
func (k *kernels) mixNEON() {
	for dt := range k.mix {
		k.mix[dt] = mixDecodedNEON
	}
	k.mix[backend.F32] = mixRowsNEON
	k.mix[backend.F16] = mixWith(mixUnscaled(mixF16NEON))
	k.mix[backend.BF16] = mixWith(mixUnscaled(mixBF16NEON))
	k.mix[backend.Int8] = mixWith(mixInt8NEON)
}

var mixRowsNEON = mixWith(mixUnscaled(mixF32NEON))

// mixUnscaled is a kernel of a type without scales.
func mixUnscaled(kernel func(acc *float32, shrink *float32, p *float32, stride int, rows int, values *byte, n int, dim int, ahead *byte)) mixKernel {
	return func(acc *float32, shrink *float32, p *float32, stride int, rows int, values *byte, _ *uint32, n int, dim int, ahead *byte) {
		kernel(acc, shrink, p, stride, rows, values, n, dim, ahead)
	}
}

// mixWith mixes for four rows after another; after the first ones, values are in the cache.
func mixWith(kernel mixKernel) func(acc, shrink, p []float32, stride int, values stored, scratch []float32) {
	return func(acc, shrink, p []float32, stride int, values stored, scratch []float32) {
		if !values.inVectors() {
			portable.mix[values.dt](acc, shrink, p, stride, values, scratch)
			return
		}
		n, dim, rows, ahead := values.rows(), values.dim, len(shrink), values.next()
		var scales *uint32
		if values.dt == backend.Int8 {
			scales = &values.scales[:n][0]
		}
		for r := 0; r < rows; r += 4 {
			some := min(rows-r, 4)
			_, _ = acc[(r+some)*dim-1], p[(r+some-1)*stride+n-1]
			kernel(&acc[r*dim], &shrink[r], &p[r*stride], stride, some, &values.data[0], scales, n, dim, ahead)
			ahead = &values.data[0]
		}
	}
}

// mixDecodedNEON mixes values that it decodes first.
func mixDecodedNEON(acc, shrink, p []float32, stride int, values stored, scratch []float32) {
	if !values.inVectors() {
		portable.mix[values.dt](acc, shrink, p, stride, values, scratch)
		return
	}
	scratch = scratch[:values.rows()*values.dim]
	decodeNEON[values.dt](scratch, values)
	mixRowsNEON(acc, shrink, p, stride, values.asF32(scratch), nil)
}
