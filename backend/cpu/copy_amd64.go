//go:build !noasm

package cpu

// copy sets stream and fence to those of k's tier.
func (k *kernels) copy() {
	by := map[string]func(dst, src *byte, n int){"avx512": streamAVX512, "avx2": streamAVX2}[k.name]
	k.stream = func(dst, src []byte) {
		src = src[:len(dst)]
		if len(dst) < 64 {
			copy(dst, src)
			return
		}
		by(&dst[0], &src[0], len(dst))
	}
	k.fence = fence
}
