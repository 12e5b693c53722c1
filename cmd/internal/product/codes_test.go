package product

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// pairs is a type of two weights in three bytes: a factor and two codes.
var pairs = Codes{Block: 2, Bytes: 3, Decode: func(dst []float32, src []byte) {
	dst[0], dst[1] = float32(src[0])*float32(int8(src[1])), float32(src[0])*float32(int8(src[2]))
}}

// Products with codes have the bits of products with the decoded weights: of any size, one row or many, in parts, added or not.
func TestCodesAreMultipliedAsDecoded(t *testing.T) {
	for _, size := range [][3]int{{1, 2, 1}, {7, 10, 3}, {8, 512, 1}, {65, 514, 2}, {130, 1026, 50}, {64, 2048, 1}, {200, 30, 100}} {
		rows, cols, n := size[0], size[1], size[2]
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(rows*cols)))
			data := make([]byte, rows*cols/2*3)
			for i := range data {
				data[i] = byte(rng.UintN(256))
			}
			m := PackCodes(pairs, rows, cols, data)
			weights := make([]float32, rows*cols)
			for r := range rows {
				m.Row(weights[r*cols:][:cols], r)
			}
			plain := Pack(backend.F32, rows, cols, weights, nil)
			x := make([]float32, n*cols)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			for _, add := range []bool{false, true} {
				want, got := make([]float32, n*rows), make([]float32, n*rows)
				for i := range want {
					want[i] = float32(i)
				}
				copy(got, want)
				plain.Mul(want, x, n, add, 0, plain.Units(n))
				half := m.Units(n) / 2
				m.Mul(got, x, n, add, half, m.Units(n))
				m.Mul(got, x, n, add, 0, half)
				require.Equal(t, want, got)
			}
			require.Equal(t, len(data), m.Bytes())
		})
	}
	require.Panics(t, func() { PackCodes(pairs, 1, 3, make([]byte, 3)) })
	require.Panics(t, func() { PackCodes(pairs, 1, 4, make([]byte, 5)) })
}

func TestCodesAllocateNothing(t *testing.T) {
	m := PackCodes(pairs, 64, 64, make([]byte, 64*96))
	out, x := make([]float32, 64), make([]float32, 64)
	m.Mul(out, x, 1, false, 0, m.Units(1))
	require.Less(t, testing.AllocsPerRun(100, func() { m.Mul(out, x, 1, false, 0, m.Units(1)) }), 1.)
}
