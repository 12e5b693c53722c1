package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Every exponent counts as it does to the codec, wherever it is in a word: a query and a weight that see
// one element alone give its value, exactly. What is behind a row's last group does not matter.
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
