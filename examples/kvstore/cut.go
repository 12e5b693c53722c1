package kvstore

import "math/bits"

// sizes are those of chunks, in bytes. normal is a power of two.
type sizes struct{ min, normal, max int }

var usual = sizes{256 << 10, 1 << 20, 4 << 20}

// cut returns how many bytes of b, which is not empty, are its first chunk. Where it ends is up to the 64 bytes before the end: what is inserted
// somewhere moves the ends near by, and those behind are where they were.
//
// It is FastCDC (Xia and others, "FastCDC: a fast and efficient content-defined chunking approach for data deduplication", USENIX ATC 2016): a
// gear hash, no ends in the first min bytes, and ends that are rarer before the normal size and more frequent after it, both by a factor of four.
func (s sizes) cut(b []byte) int {
	n := min(len(b), s.max)
	rare := 64 - bits.TrailingZeros(uint(s.normal)) - 2 // of the hash's bits, those above are 0 at an end
	var hash uint64
	for i := s.min; i < n; i++ {
		hash = hash<<1 + gear[b[i]]
		if i < s.normal && hash>>rare == 0 || i >= s.normal && hash>>(rare+4) == 0 {
			return i + 1
		}
	}
	return n
}

// gear has a random number for each byte. They are always the same: with others, nothing that is kept would be found again.
var gear = func() (out [256]uint64) {
	state := uint64(0)
	for i := range out { // SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014)
		state += 0x9e3779b97f4a7c15
		z := (state ^ state>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		out[i] = z ^ z>>31
	}
	return out
}()
