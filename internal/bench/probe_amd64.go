//go:build !noasm

package bench

// probeRound is the bytes of a round of reading and copying; fmaRound the floating point
// operations of one of multiplying, per element of a vector.
const probeRound, fmaRound = 512, 2 * 12

// instructionsOf is the probes with the instructions of some kernels.
func instructionsOf(kernels string) instructions {
	switch kernels {
	case "avx512":
		return assembled(readAVX512, copyAVX512, fmaAVX512, 16)
	case "avx2":
		return assembled(readAVX2, copyAVX2, fmaAVX2, 8)
	}
	return portable
}

func assembled(read func(mem *byte, ahead, rounds int), move func(dst, src *byte, ahead, rounds int), fma func(x *float32, rounds int), lanes int) instructions {
	return instructions{
		read: func(mem []byte, ahead int) {
			if n := len(mem) / probeRound; n > 0 {
				read(&mem[0], ahead, n)
			}
		},
		copy: func(dst, src []byte, ahead int) {
			if n := min(len(dst), len(src)) / probeRound; n > 0 {
				move(&dst[0], &src[0], ahead, n)
			}
		},
		fma: func(flops int) {
			x := float32(0.5)
			if n := flops / (fmaRound * lanes); n > 0 {
				fma(&x, n)
			}
		},
	}
}
