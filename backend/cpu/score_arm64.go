//go:build !noasm

package cpu

// scoreKernel is score for up to four rows.
type scoreKernel func(dst *float32, stride int, q *float32, rows int, keys *byte, scales *uint32, n int, dim int, ahead *byte)

// scoreNEON sets score to assembly.
func (k *kernels) scoreNEON() {
	for dt := range k.score {
		k.score[dt] = scoreRun(scoreDecodedNEON).each()
	}
	for dt, score := range (perCode[scoring]{
		f32: scoreRowsNEON.each(), f16: scoreWith(scoreUnscaled(scoreF16NEON)).each(), bf16: scoreWith(scoreUnscaled(scoreBF16NEON)).each(),
		signed8: scoreWith(scoreInt8NEON).each(),
	}).table() {
		if score != nil {
			k.score[dt] = score
		}
	}
}

var scoreRowsNEON = scoreWith(scoreUnscaled(scoreF32NEON))

// scoreUnscaled is a kernel of a type without scales.
func scoreUnscaled(kernel func(dst *float32, stride int, q *float32, rows int, keys *byte, n int, dim int, ahead *byte)) scoreKernel {
	return func(dst *float32, stride int, q *float32, rows int, keys *byte, _ *uint32, n int, dim int, ahead *byte) {
		kernel(dst, stride, q, rows, keys, n, dim, ahead)
	}
}

// scoreWith scores four rows after another; after the first ones, keys are in the cache.
func scoreWith(kernel scoreKernel) scoreRun {
	return func(dst []float32, stride int, q []float32, keys *stored, scratch []float32) {
		if !keys.inVectors() {
			scoreGo(dst, stride, q, keys, scratch)
			return
		}
		n, rows, ahead := keys.n, len(q)/keys.dim, keys.next()
		var scales *uint32
		if keys.dt.Quantized() {
			scales = &keys.scales[:n][0]
		}
		for r := 0; r < rows; r += 4 {
			some := min(rows-r, 4)
			_ = dst[(r+some-1)*stride+n-1]
			kernel(&dst[r*stride], stride, &q[r*keys.dim], some, &keys.data[0], scales, n, keys.dim, ahead)
			ahead = &keys.data[0]
		}
	}
}

// scoreDecodedNEON scores keys that it decodes first.
func scoreDecodedNEON(dst []float32, stride int, q []float32, keys *stored, scratch []float32) {
	if !keys.inVectors() {
		scoreDecoded(dst, stride, q, keys, scratch)
		return
	}
	scratch = scratch[:keys.n*keys.dim]
	decodeNEON[keys.dt](scratch, *keys)
	coded := *keys
	*keys = coded.asF32(scratch) // in its place, as one of its own would be allocated
	scoreRowsNEON(dst, stride, q, keys, nil)
	*keys = coded
}
