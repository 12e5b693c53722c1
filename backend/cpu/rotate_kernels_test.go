package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Any kernels turn rows to the same bits as those in Go, whatever the dims.
func TestTurnAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, k := range available {
		for dims := 2; dims <= 260; dims += 2 {
			for _, pairing := range []backend.Pairing{backend.HalfSplit, backend.Interleaved} {
				dim := dims + dims/2%3 // of a row, of which the last ones stay
				x, angles := guarded[float32](t, 2*dim), guarded[float32](t, dims)
				awkward(x, rng, kinds)
				copy(angles, randoms(rng, dims))
				want := append([]float32(nil), x...)
				sign := float32(1 - 2*(dims/2%2))
				turnGo(want, dim, angles, pairing, sign, 1.25)
				k.turn(x, dim, angles, pairing, sign, 1.25)
				require.True(t, sameFloats(want, x), "%s: %d dims, pairing %d", k.name, dims, pairing)
			}
		}
	}
}

func TestHadamardAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, k := range available {
		for _, dim := range []int{1, 2, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 192, 256, 320, 512, 768, 2048} {
			for n := range 4 {
				x := guarded[float32](t, n*dim)
				awkward(x, rng, kinds)
				want := append([]float32(nil), x...)
				hadamard(want, dim)
				k.hadamard(x, dim)
				require.True(t, sameFloats(want, x), "%s: %d rows of %d", k.name, n, dim)
			}
		}
	}
}
