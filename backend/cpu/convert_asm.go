//go:build !noasm && (amd64 || arm64)

package cpu

import "math"

// fp8Store stores 8-bit floats, a multiple of 16 of them, and reports whether they are finite.
type fp8Store func(codes *byte, src *float32, scale float32, n int) bool

// encode is kernels.encode. What does not fill vectors, and what is not finite and is to be made so, is
// left to Go.
func (store fp8Store) encode(dst stored, src []float32, saturate bool) bool {
	src = src[:len(dst.data)]
	n := len(src) &^ 15
	if n > 0 && !store(&dst.data[0], &src[0], math.Float32frombits(dst.scales[0]), n) {
		return saturate && encodeFP8(dst, src, true)
	}
	dst.data = dst.data[n:]
	return encodeFP8(dst, src[n:], saturate)
}
