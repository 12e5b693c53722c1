package quant

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHadamardSize(t *testing.T) {
	for dim, want := range map[int]int{0: 0, 1: 1, 3: 1, 64: 64, 80: 16, 96: 32, 128: 128, 100: 4} {
		require.Equal(t, want, HadamardSize(dim), dim)
	}
}

// Turning is a product with the matrix whose element (i, j) is ±1/√size, minus where i
// and j have an odd number of ones in common.
func TestHadamardIsTheMatrix(t *testing.T) {
	for _, dim := range []int{1, 2, 6, 8, 80, 128} {
		size := HadamardSize(dim)
		for j := range dim {
			x := make([]float32, dim)
			x[j] = 1
			Hadamard(x)
			for i, v := range x {
				want := 0.0
				if i/size == j/size {
					want = 1 / math.Sqrt(float64(size))
					if bits.OnesCount(uint(i%size&(j%size)))%2 == 1 {
						want = -want
					}
				}
				require.Equal(t, float32(want), v, "[%d, %d] of %d", i, j, dim)
			}
		}
	}
	Hadamard(nil)
}

// It is its own inverse and keeps products, both up to the rounding of log2(size)+1
// operations on an element.
func TestHadamardKeepsProducts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawRow(t)
		for i := range k { // products stay far from overflow
			k[i] = min(max(k[i], -0x1p50), 0x1p50)
		}
		q := slices.Clone(k)
		for i := range q {
			q[i] = float32(math.Sin(float64(3 * i)))
		}
		turnedK, turnedQ := slices.Clone(k), slices.Clone(q)
		Hadamard(turnedK)
		Hadamard(turnedQ)
		steps := float64(2 * bits.Len(uint(HadamardSize(len(k)))))
		slack := length(k)*length(q)*steps*0x1p-24 + 0x1p-140
		require.InDelta(t, dot(k, q), dot(turnedK, turnedQ), 4*slack)
		Hadamard(turnedK)
		for i, v := range k {
			require.InDelta(t, v, turnedK[i], 2*length(k)*steps*0x1p-24+0x1p-140)
		}
	})
}

// An outlier is spread: the largest element of what it makes is near 1/√size of it, and
// so are the steps of its groups.
func TestHadamardSpreadsOutliers(t *testing.T) {
	x := make([]float32, 128)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	x[17] = 206
	a := Affine{Bits: 4, Group: 32}
	before := a.Bound(x[:32])
	Hadamard(x)
	after := 0.0
	for i := 0; i < 128; i += 32 {
		after = max(after, a.Bound(x[i:i+32]))
	}
	require.Less(t, after, before/4)
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func length(x []float32) float64 { return math.Sqrt(dot(x, x)) }
