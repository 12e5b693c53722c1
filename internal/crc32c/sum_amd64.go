//go:build !noasm && !race

// The race detector does not see what assembly reads and writes, so that under it there is none.

package crc32c

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// native is whether the processor has the instructions of kernels/asm/amd64.
var native = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

const (
	round = 256 // bytes that assembly reads at once
	line  = 64
	// large is from how many bytes on a copy goes around the caches: most of it would have left them before it is read, and to go
	// around saves to read what is overwritten.
	large = 256 << 10
)

// nativeUpdate sums the first n bytes of b with vector instructions.
func nativeUpdate(sum uint32, b []byte) (_ uint32, n int) {
	if n = len(b) / round * round; !native || n == 0 {
		return sum, 0
	}
	return sumAVX512(&b[0], n, sum), n
}

// nativeCopy copies and sums the first n bytes of src with vector instructions.
func nativeCopy(dst, src []byte) (sum uint32, n int) {
	if !native || len(src) < round+line {
		return 0, 0
	}
	head := int(-uintptr(unsafe.Pointer(&dst[0])) % line)
	n = (len(src) - head) / round * round
	sum = plainCopy(0, dst[:head], src[:head])
	if n < large {
		sum = copySumAVX512(&dst[head], &src[head], n, sum)
	} else {
		sum = copySumAroundAVX512(&dst[head], &src[head], n, sum)
	}
	return sum, head + n
}
