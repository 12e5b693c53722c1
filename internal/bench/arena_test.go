package bench

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// However long the pieces are, at least flush bytes are used between two uses of a page.
func TestArenaComesBackLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const flush, most = 40 * page, 25 * page
		a := &arena{mem: make([]byte, flush+most)}
		used, last := 0, map[uintptr]int{} // bytes in all, and when a page was used
		for _, n := range rapid.SliceOfN(rapid.IntRange(1, most), 1, 100).Draw(t, "pieces") {
			piece := a.take(n)
			require.GreaterOrEqual(t, len(piece), n)
			for i := 0; i < len(piece); i += page {
				at := uintptr(unsafe.Pointer(&piece[i]))
				if before, ok := last[at]; ok {
					require.GreaterOrEqual(t, used-before, flush)
				}
				used += page
				last[at] = used
			}
		}
	})
}

// Memory that is filled is good numbers of every type.
func TestFilledMemoryIsFinite(t *testing.T) {
	mem := make([]byte, 3<<20)
	fill(mem)
	require.Equal(t, mem[:1<<20], mem[2<<20:])
	for i := 0; i < 1<<20; i += 4 {
		word := *(*uint32)(unsafe.Pointer(&mem[i]))
		for _, v := range []float32{math.Float32frombits(word), quant.FromF16(uint16(word)), quant.FromBF16(uint16(word >> 16))} {
			size := math.Abs(float64(v))
			if size < 1e-6 || size >= 1 {
				t.Fatalf("%x: %g", word, v)
			}
		}
		for _, code := range mem[i : i+4] {
			if code&0x7f == 0x7f || code&0x7c == 0x7c {
				t.Fatalf("%x: code %x is no number of 8 bits", word, code)
			}
		}
	}
}
