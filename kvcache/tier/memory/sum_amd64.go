//go:build !noasm && !race

// The race detector does not see what assembly reads and writes, so that under it there is none.

package memory

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// native is whether the processor has the instructions of kernels/asm/amd64.
var native = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

const (
	summed = 256 // bytes that assembly copies at once
	line   = 64
	// large is from how many bytes on a copy goes around the caches: most of it would have left them before it is read, and to go
	// around saves to read what is overwritten.
	large = 256 << 10
)

// nativeCopySum copies and sums the first bytes of src by vector instructions, and returns of how many the sum is.
func nativeCopySum(dst, src []byte) (sum uint32, n int) {
	if !native || len(src) < summed+line {
		return 0, 0
	}
	head := int(-uintptr(unsafe.Pointer(&dst[0])) % line)
	n = (len(src) - head) / summed * summed
	sum = plainCopySum(0, dst[:head], src[:head])
	if n < large {
		sum = copySumAVX512(&dst[head], &src[head], n, sum)
	} else {
		sum = copySumAroundAVX512(&dst[head], &src[head], n, sum)
	}
	return sum, head + n
}
