//go:build !noasm

package cpu

// streamsOf is stream of each tier.
var streamsOf = map[string]func(dst *byte, stride int, src *byte, piece, n int){"avx512": streamAVX512, "avx2": streamAVX2}

// streams sets stream and fence to those of k's tier.
func (k *kernels) streams() {
	by := streamsOf[k.name]
	k.stream = func(dst []byte, stride int, src []byte, piece int) {
		if piece < leastStream {
			scatter(dst, stride, src, piece)
			return
		}
		if n := len(src) / piece; n > 0 {
			_ = dst[(n-1)*stride:][:piece]
			by(&dst[0], stride, &src[0], piece, n)
		}
	}
	k.fence = fence
}

// leastStream is the smallest piece that assembly copies.
const leastStream = 64
