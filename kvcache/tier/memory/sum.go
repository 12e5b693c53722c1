package memory

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// copySum copies src to dst, which have the same length and do not overlap, and returns the CRC32C of it. Nobody writes to src
// meanwhile.
func copySum(dst, src []byte) uint32 {
	sum, n := nativeCopySum(dst, src)
	return plainCopySum(sum, dst[n:], src[n:])
}

// chunk is summed and copied at once: the copy finds it in the processor's nearest cache, and goes on beside the sum of
// the next one. Larger ones do not fit into what a processor has under way, and smaller ones make Go's sum slower.
const chunk = 512

// plainCopySum copies, and returns the sum of what sum is of, and of src behind it.
func plainCopySum(sum uint32, dst, src []byte) uint32 {
	for len(src) > 0 {
		n := min(len(src), chunk)
		sum = crc32.Update(sum, castagnoli, src[:n])
		copy(dst[:n], src)
		dst, src = dst[n:], src[n:]
	}
	return sum
}
