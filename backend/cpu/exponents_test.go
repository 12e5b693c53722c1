package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Every exponent counts as it does to the codec, wherever it is in a word: a query and a weight that see
// one element alone give its value, exactly. What is after a row's last group does not matter.
func TestScoreEveryExponent(t *testing.T) {
	const dt, n = backend.MXFP4, 9
	group := dt.Coding().Group
	for _, k := range available {
		for _, dim := range []int{32, 48, 96, 128, 160} {
			rng := rand.New(rand.NewPCG(uint64(dim), 1))
			scratch := guarded[float32](t, chunk*dim)
			for e := range 256 {
				keys, decoded := guardedRows(t, dt, dim, n), make([]float32, n*dim)
				for i := range keys.scales { // elsewhere are zeros, and in bytes of no group numbers
					keys.scales[i] = rng.Uint32() & 0x7f7f7f7f
				}
				row, element := rng.IntN(n), rng.IntN(dim)
				words := keys.scales[row*dt.ScaleWords(dim):][:dt.ScaleWords(dim)]
				words[element/group/4] &^= 0xff << (element / group % 4 * 8)
				words[element/group/4] |= uint32(e) << (element / group % 4 * 8)
				code := byte(1 + rng.IntN(7) + 8*rng.IntN(2))
				keys.data[(row*dim+element)/2] = code << (element % 2 * 4)
				decodeRows(decoded, keys)
				want := decoded[row*dim+element]
				require.True(t, sameFloats([]float32{quant.ScaleMX(uint8(e)) * (0.5 * float32(halfSteps[code]))}, []float32{want}), "half steps are what codes are worth")

				q := make([]float32, dim)
				q[element] = 1
				require.True(t, sameFloats([]float32{want}, scoresOf(t, k, q, keys)[row:row+1]), "%s, dim %d, exponent %d", k.name, dim, e)
				p, acc := make([]float32, n), make([]float32, dim)
				p[row] = 1
				k.mix[dt](acc, []float32{1}, p, n, []stored{keys}, scratch)
				require.True(t, sameFloats([]float32{want}, acc[element:element+1]), "%s, dim %d, exponent %d", k.name, dim, e)
			}
		}
	}
}

// Products of rounded queries with the largest elements are those of the kernels in Go: sums of codes
// that count from the lowest one are beyond a float32 before the products are.
func TestScoreInt8EveryExponent(t *testing.T) {
	const dt, dim, n, rows = backend.MXFP4, 64, 9, 2
	rng := rand.New(rand.NewPCG(7, 7))
	for e := range 256 {
		keys := guardedRows(t, dt, dim, n)
		for i := range keys.data {
			keys.data[i] = byte(rng.UintN(256))
		}
		for i := range keys.scales {
			keys.scales[i] = uint32(e) | uint32(max(e-rng.IntN(3), 0))<<8
		}
		q := stored{dt: backend.Int8, dim: dim, n: rows, data: make([]byte, rows*dim), scales: []uint32{math.Float32bits(1. / 64), math.Float32bits(1. / 128)}}
		for i := range q.data {
			q.data[i] = byte(int8(rng.IntN(255) - 127))
		}
		want := productsOf(t, &portable, q, keys)
		for _, k := range available {
			whole := productsOf(t, k, q, keys)
			require.True(t, sameFloats(whole, productsOf(t, k, q, pieces(rng, keys)...)), "in runs")
			for i, have := range whole {
				switch w := float64(want[i]); {
				case math.IsNaN(w) || math.IsInf(w, 0):
					require.True(t, sameFloats(want[i:i+1], []float32{have}), "%s, exponent %d: %v, want %v", k.name, e, have, w)
				default:
					require.InDelta(t, w, have, 1e-5*math.Ldexp(12*dim*127, e-128)/64+0x1p-140, "%s, exponent %d", k.name, e)
				}
			}
		}
	}
}
