package prefix

import (
	"math/rand/v2"
	"testing"
)

// bytesSource stirs a string of bytes into a stream of random numbers, one byte each.
// It does not end with the string: rand asks again where a number does not suit it.
type bytesSource struct {
	code  []byte
	state uint64
}

func (s *bytesSource) Uint64() uint64 {
	if len(s.code) > 0 {
		s.state ^= uint64(s.code[0]) << 32
		s.code = s.code[1:]
	}
	s.state = s.state*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
	return s.state
}

// FuzzTree lives the life that the bytes say, and checks the tree after every step.
func FuzzTree(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, byte(LRU))
	f.Add([]byte("a prompt, and another prompt, and a third that begins like the first"), byte(Adaptive))
	f.Add([]byte{200, 100, 50, 25, 12, 6, 3, 1, 255, 254, 253, 128, 64, 32, 16, 8}, byte(Segmented))
	f.Add([]byte("what a prompt has left behind elsewhere, another one may bring back, or may not"), byte(3<<4|1))
	f.Fuzz(func(t *testing.T, code []byte, policy byte) {
		if len(code) > 1<<12 {
			t.Skip("longer histories show nothing new")
		}
		h := newTiered(t, 40, int(policy>>4)*5, Adaptive+Policy(policy)%lastPolicy, 0)
		source := &bytesSource{code: code}
		h.rng = rand.New(source)
		for len(source.code) > 0 {
			h.step()
			h.check()
		}
		h.drain()
	})
}
