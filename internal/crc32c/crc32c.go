// Package crc32c computes CRC32C sums, with vector instructions where the processor has them, and copies bytes as it sums them.
package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the CRC32C of b.
func Sum(b []byte) uint32 { return Update(0, b) }

// Update returns the CRC32C of the bytes that sum is the CRC32C of, followed by b.
func Update(sum uint32, b []byte) uint32 {
	sum, n := nativeUpdate(sum, b)
	return crc32.Update(sum, table, b[n:])
}

// Copy copies src to dst, which has the same length and does not overlap it, and returns the CRC32C of src, which must not change
// meanwhile.
func Copy(dst, src []byte) uint32 {
	sum, n := nativeCopy(dst, src)
	return plainCopy(sum, dst[n:], src[n:])
}

// chunk is summed and copied at a time: the copy finds it in the processor's nearest cache, and overlaps the sum of
// the next one. Larger ones exceed what a processor has in flight, and smaller ones make Go's sum slower.
const chunk = 512

// plainCopy copies src, and returns Update of sum and src.
func plainCopy(sum uint32, dst, src []byte) uint32 {
	for len(src) > 0 {
		n := min(len(src), chunk)
		sum = crc32.Update(sum, table, src[:n])
		copy(dst[:n], src)
		dst, src = dst[n:], src[n:]
	}
	return sum
}
