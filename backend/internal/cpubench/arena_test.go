package cpubench

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
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

func TestPlaceOfALayer(t *testing.T) {
	l := layer{backend.Int4, 64, 16}
	require.Equal(t, 2*(64*width/2+4*64*kvHeads*dim/32), l.bytes())
	require.Zero(t, l.place()%page)
	require.GreaterOrEqual(t, l.place(), l.bytes())
	require.Equal(t, "paged16", l.layout())
	require.Equal(t, "contiguous", layer{backend.F16, 64, 64}.layout())
}

// A query sees the keys up to its own, and 4 operations are for each of their elements.
func TestWorkOfAStep(t *testing.T) {
	prompt := step{what: "prefill", dt: backend.F16, batch: 2, context: 5, queries: 3}
	require.EqualValues(t, 4*2*(3+4+5)*qHeads*dim, prompt.work().amount)
	require.Equal(t, multiplying, prompt.work().bound)
	decode := step{what: "decode", dt: backend.F32, batch: 2, context: 5, queries: 1}
	require.EqualValues(t, 2*2*5*width*4, decode.work().amount)
	require.Equal(t, reading, decode.work().bound)
	require.EqualValues(t, 2, decode.work().flops/decode.work().bytes)
}
