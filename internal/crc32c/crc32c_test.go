package crc32c

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkCopy checks one copy of n bytes between two places, of which neighbours stay as they are.
func checkCopy(t testing.TB, src []byte, from, to, n int) {
	dst := bytes.Repeat([]byte{0x5a}, to+n+300)
	want := bytes.Clone(dst)
	copy(want[to:], src[from:from+n])
	sum := Copy(dst[to:to+n], src[from:from+n])
	require.True(t, bytes.Equal(want, dst), "%d bytes from %d to %d", n, from, to)
	require.Equal(t, crc32.Checksum(src[from:from+n], table), sum, "%d bytes from %d to %d", n, from, to)
	before := crc32.Checksum(src[:from], table)
	require.Equal(t, crc32.Checksum(src[:from+n], table), Update(before, src[from:from+n]), "%d bytes after %d", n, from)
}

// Copies have the bytes and the CRC32C of what they are copies of, at any length and alignment.
func TestCopy(t *testing.T) {
	require.Equal(t, uint32(0xe3069283), Copy(make([]byte, 9), []byte("123456789")))
	rng := rand.NewChaCha8([32]byte{1})
	src := make([]byte, 1<<20)
	_, _ = rng.Read(src)
	for n := range 1500 {
		checkCopy(t, src, n%7*9, n%71, n)
	}
	for _, n := range []int{4096, 16384, 256<<10 - 1, 256 << 10, 256<<10 + 63, 256<<10 + 64, 256<<10 + 319, 600_001} {
		for at := range 66 {
			checkCopy(t, src, at*3%64, at, n+at%3)
		}
	}
}

func FuzzCopy(f *testing.F) {
	f.Add([]byte("123456789"), uint16(700), uint8(3), uint8(5))
	f.Fuzz(func(t *testing.T, pattern []byte, n uint16, from, to uint8) {
		src := make([]byte, int(n)+int(from))
		for i := range src {
			src[i] = byte(i >> 8)
			if len(pattern) > 0 {
				src[i] ^= pattern[i%len(pattern)]
			}
		}
		checkCopy(t, src, int(from), int(to), int(n))
	})
}
