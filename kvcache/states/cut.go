package states

import "math"

// sizes are those of chunks, in bytes: the least, the mean and the most.
type sizes struct{ min, mean, max int }

var usual = sizes{8 << 10, 16 << 10, 64 << 10}

// window is how many bytes a hash of 64 bits depends on that moves up by one with each.
const window = 64

// cut returns how many bytes of b, which is not empty, are its first chunk. It ends where the hash of the last 64 bytes is small, so it is up to
// these: if something is inserted, the ends near by move, and those behind it are found again.
//
// That is the gear hash of FastCDC (Xia and others, "FastCDC: a fast and efficient content-defined chunking approach for data deduplication",
// USENIX ATC 2016), which also looks for no end in the first bytes. Unlike there an end is as likely before the mean as after it.
func (s sizes) cut(b []byte) int {
	n := min(len(b), s.max)
	if n <= s.min {
		return n
	}
	few := math.MaxUint64 / uint64(s.mean-s.min)
	var hash uint64
	for _, c := range b[s.min-window : s.min] {
		hash = hash<<1 + gear[c]
	}
	for i, c := range b[s.min:n] {
		if hash = hash<<1 + gear[c]; hash < few {
			return s.min + i + 1
		}
	}
	return n
}

// gear has a random number for each byte. They are always the same: with others nothing would be cut as before.
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
