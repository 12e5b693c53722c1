//go:build !noasm

package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
)

// Integer products are those of the kernels in Go, to the last bit, whatever the codes;
// with the instruction that is made for them, where the processor has it, and without.
func TestScoreCodesAgrees(t *testing.T) {
	neon := portable
	neon.scoreCodesNEON()
	plain := portable
	plain.scoreCodesWith(scoreInt8ByNEON, scoreE2M1ByNEON, scoreInt8AsymByNEON, scoreInt4ByNEON)
	for _, dt := range int8Query() {
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, uint64(dt)))
			dim := []int{16, 32, 48, 64, 80, 96, 128, 192, 256, 272, 7}[rng.IntN(11)]
			if dim%2 == 1 && dt.Bits() == 4 {
				dim++
			}
			rows, n := 1+rng.IntN(9), 1+rng.IntN(chunk)
			keys, q := guardedRows(t, dt, dim, n), guardedRows(t, backend.Int8, dim, rows)
			for _, s := range []stored{keys, q} {
				extreme := rng.IntN(4) == 0
				for i := range s.data {
					if s.data[i] = byte(rng.Uint32()); extreme {
						s.data[i] = []byte{0x80, 0x7f, 0xff}[rng.IntN(3)]
					}
				}
				for i := range s.scales {
					s.scales[i] = someScale(rng, s.dt)
				}
				if rng.IntN(8) == 0 {
					s.setNaN()
				}
			}
			w, size := newIntegers(dim), (rows-1)*chunk+n
			want := make([]float32, size)
			portable.scoreInt8[dt](want, chunk, q, []stored{keys}, &w)
			for _, k := range []*kernels{&neon, &plain} {
				got := guarded[float32](t, size)
				k.scoreInt8[dt](got, chunk, q, []stored{keys}, &w)
				require.True(t, sameFloats(want, got), "%s, dim %d, %d rows, %d keys", dt, dim, rows, n)
			}
		}
	}
}

// The suite in small, for an emulated processor (see scripts/test-arm64); TestConformance is
// all of it.
func TestConformanceReduced(t *testing.T) {
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[backend.AnyBuffer] {
		be, err := Open(Options{Kernels: "neon"})
		require.NoError(t, err)
		return backend.Erase(be)
	}, backendtest.Options{Grid: backendtest.Values, MaxWork: 1 << 20})
}
