//go:build !noasm

package cpu

// mixKernel is mix for up to four rows.
type mixKernel func(acc *float32, shrink *float32, p *float32, stride int, rows int, values *byte, scales *uint32, n int, dim int, row int, ahead *byte)

// mixNEON sets mix to assembly.
func (k *kernels) mixNEON() {
	for dt := range k.mix {
		k.mix[dt] = mixRun(mixDecodedNEON).each(scaleBy)
	}
	for dt, mix := range (perCode[mixing]{
		f32: mixRowsNEON.each(scaleBy), f16: mixWith(mixUnscaled(mixF16NEON)).each(scaleBy), bf16: mixWith(mixUnscaled(mixBF16NEON)).each(scaleBy),
		signed8: mixWith(mixInt8NEON).each(scaleBy),
	}).table() {
		if mix != nil {
			k.mix[dt] = mix
		}
	}
}

var mixRowsNEON = mixWith(mixUnscaled(mixF32NEON))

// mixUnscaled is a kernel of a type without scales.
func mixUnscaled(kernel func(acc *float32, shrink *float32, p *float32, stride int, rows int, values *byte, n int, dim int, row int, ahead *byte)) mixKernel {
	return func(acc *float32, shrink *float32, p *float32, stride int, rows int, values *byte, _ *uint32, n int, dim int, row int, ahead *byte) {
		kernel(acc, shrink, p, stride, rows, values, n, dim, row, ahead)
	}
}

// mixWith mixes for four rows after another; after the first ones, values are in the cache.
func mixWith(kernel mixKernel) mixRun {
	return func(acc, p []float32, stride, rows int, values *stored, scratch []float32) {
		if !values.inVectors() {
			mixGo(acc, p, stride, rows, values, scratch)
			return
		}
		n, dim, ahead := values.n, values.dim, values.next()
		row := values.pitch() * values.dt.Bits() / 8
		var scales *uint32
		if values.dt.Quantized() {
			scales = &values.scales[:n][0]
		}
		for r := 0; r < rows; r += len(noShrink) {
			some := min(rows-r, len(noShrink))
			_, _ = acc[(r+some)*dim-1], p[(r+some-1)*stride+n-1]
			kernel(&acc[r*dim], &noShrink[0], &p[r*stride], stride, some, &values.data[0], scales, n, dim, row, ahead)
			ahead = &values.data[0]
		}
	}
}

// mixDecodedNEON mixes values that it decodes first.
func mixDecodedNEON(acc, p []float32, stride, rows int, values *stored, scratch []float32) {
	if !values.inVectors() {
		mixDecoded(acc, p, stride, rows, values, scratch)
		return
	}
	scratch = scratch[:values.n*values.dim]
	values.decode(scratch, decodeNEON[values.dt])
	coded := *values
	*values = coded.asF32(scratch)
	mixRowsNEON(acc, p, stride, rows, values, nil)
	*values = coded
}
