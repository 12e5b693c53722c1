package runner

import (
	"crypto/sha256"
	"fmt"
	"runtime"
)

// digestPart is the bytes of a file that are hashed by themselves, so that all processors help: one alone takes a second for 2 GB.
const digestPart = 16 << 20

// digest is the SHA-256 of a configuration and, of each file of a path, of its length and of the SHA-256 of each part.
func digest(path string, c *Config, files [][]byte) []byte {
	var parts [][]byte
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n", *c)
	for _, data := range files {
		fmt.Fprintf(h, "%d\n", len(data))
		for ; len(data) > digestPart; data = data[digestPart:] {
			parts = append(parts, data[:digestPart])
		}
		parts = append(parts, data)
	}
	sums := make([][sha256.Size]byte, len(parts))
	split(path, min(runtime.GOMAXPROCS(0), len(parts)), len(parts), func(from, to int) {
		for i := from; i < to; i++ {
			sums[i] = sha256.Sum256(parts[i])
		}
	})
	for _, sum := range sums {
		h.Write(sum[:])
	}
	return h.Sum(nil)
}
