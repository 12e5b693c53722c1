package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// smallestNormal is where weights may become 0.
const smallestNormal = 0x1p-126

// Weights are within 2 units of the last place of e to the power of what is rounded to
// float32 on the way.
func TestWeighExp(t *testing.T) {
	for _, k := range available {
		t.Run(k.name, func(t *testing.T) {
			const n = 64
			worst := 0.0
			for bits := math.Float32bits(0x1p-30); bits < math.Float32bits(110); {
				scores, want := make([]float32, n), make([]float64, n)
				for j := range scores {
					scores[j] = -math.Float32frombits(bits)
					want[j] = math.Exp(float64(scores[j]))
					bits += 4999
				}
				top, shrink, sum := []float32{0}, []float32{0}, []float64{0}
				k.weigh(scores, n, n, 1, top, shrink, sum)
				for j, w := range want {
					if w < smallestNormal {
						require.True(t, scores[j] >= 0 && scores[j] <= smallestNormal, "%g", scores[j])
						continue
					}
					worst = max(worst, ulps(scores[j], w))
				}
			}
			t.Logf("%.2f units", worst)
			require.LessOrEqual(t, worst, 2.0)
		})
	}
}

// ulps is the distance of x and y in units of the last place of y as a float32.
func ulps(x float32, y float64) float64 {
	_, e := math.Frexp(y)
	return math.Abs(float64(x)-y) / math.Ldexp(1, e-24)
}

// A call's weights, tops, factors and sums are those of a softmax in float64, over ragged
// sizes, and what lies beyond a row stays.
func TestWeigh(t *testing.T) {
	for _, k := range available {
		rng := rand.New(rand.NewPCG(7, 7))
		for _, rows := range []int{1, 2, 3, 4, 9, 33} {
			for n := 1; n <= 65; n += 1 + n/9 {
				t.Run(fmt.Sprintf("%s/%dx%d", k.name, rows, n), func(t *testing.T) {
					testWeigh(t, k, rng, rows, n)
				})
			}
		}
	}
}

func testWeigh(t *testing.T, k *kernels, rng *rand.Rand, rows, n int) {
	stride := n + rng.IntN(3)
	scores := guarded[float32](t, (rows-1)*stride+n)
	top, shrink := guarded[float32](t, rows), guarded[float32](t, rows)
	sum := guarded[float64](t, rows)
	for i := range scores {
		scores[i] = float32(20 * rng.NormFloat64())
	}
	for r := range rows {
		row := scores[r*stride:][:n]
		top[r], sum[r] = float32(10*rng.NormFloat64()), 3*rng.Float64()
		switch rng.IntN(5) {
		case 0: // nothing came before
			top[r], sum[r] = negInf, 0
		case 1: // the row sees none of these keys
			for j := range row {
				row[j] = negInf
			}
		case 2:
			row[rng.IntN(n)] = negInf
		case 3:
			top[r], sum[r] = negInf, 0
			for j := range row {
				row[j] = negInf
			}
		}
	}
	by := float32(0.3)
	before, oldTop, oldSum := append([]float32(nil), scores...), append([]float32(nil), top...), append([]float64(nil), sum...)
	k.weigh(scores, stride, n, by, top, shrink, sum)
	for r := range rows {
		high := oldTop[r]
		for _, s := range before[r*stride:][:n] {
			high = max(high, s*by)
		}
		require.Equal(t, high, top[r])
		less := 1.0
		if oldSum[r] != 0 && high != oldTop[r] {
			less = math.Exp(float64(oldTop[r] - high))
		}
		require.InEpsilon(t, less, shrink[r], 3e-7+1e-7*math.Abs(math.Log(less)))
		want := oldSum[r] * less
		for j, s := range before[r*stride:][:n] {
			weight := 0.0
			if s != negInf {
				weight = math.Exp(float64(float32(s*by) - high))
			}
			require.InDelta(t, weight, scores[r*stride+j], 3e-7*weight+smallestNormal)
			want += weight
		}
		require.InDelta(t, want, sum[r], 2e-6*want)
	}
	for r := range rows - 1 {
		require.Equal(t, before[r*stride+n:(r+1)*stride], scores[r*stride+n:(r+1)*stride])
	}
}

// A score that is not a number shows in its row's top, and in no other row.
func TestWeighNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, k := range available {
		for _, n := range []int{1, 7, 32, 40} {
			for at := range n {
				scores := make([]float32, 3*n)
				top, shrink, sum := []float32{1, 1, nan}, make([]float32, 3), []float64{1, 1, 1}
				scores[n+at] = nan
				k.weigh(scores, n, n, 1, top, shrink, sum)
				require.Equal(t, float32(1), top[0])
				require.Equal(t, float32(1), shrink[0])
				for _, r := range []int{1, 2} {
					require.True(t, top[r] != top[r], "%s: row %d", k.name, r)
					require.True(t, math.IsNaN(sum[r]))
					for _, w := range scores[r*n:][:n] {
						require.True(t, w != w)
					}
				}
			}
		}
	}
}

// Capped scores are near those in float64, from the smallest to infinite ones; NaN stays.
func TestSoftcap(t *testing.T) {
	for _, k := range available {
		rng := rand.New(rand.NewPCG(11, 11))
		for n := 1; n <= 65; n++ {
			row := guard(t, randoms(rng, n))
			for i := range row {
				row[i] *= float32(math.Exp(20 * rng.NormFloat64()))
			}
			row[rng.IntN(n)] = []float32{0, 1e-40, negInf, -negInf, float32(math.NaN())}[n%5]
			before, limit := append([]float32(nil), row...), []float32{0.5, 30, 1e30}[n%3]
			k.softcap(row, 0.25, limit)
			for i, x := range row {
				want := float64(limit) * math.Tanh(float64(before[i]*0.25)/float64(limit))
				if math.IsNaN(want) {
					require.True(t, x != x)
					continue
				}
				require.InDelta(t, want, x, 1e-7*float64(limit)+1e-6*math.Abs(want), "%s: %v", k.name, before[i])
			}
		}
	}
}

func BenchmarkWeigh(b *testing.B) {
	for _, k := range available {
		b.Run(k.name, func(b *testing.B) {
			const rows, n = 4, 32
			scores, top, shrink, sum := aligned[float32](rows*n), make([]float32, rows), make([]float32, rows), make([]float64, rows)
			fresh := make([]float32, rows*n)
			for i := range fresh {
				fresh[i] = float32(i*37%61) / 10
			}
			for b.Loop() {
				copy(scores, fresh)
				k.weigh(scores, n, n, 0.5, top, shrink, sum)
			}
		})
	}
}

// The largest score's weight is 1, however large the score.
func TestWeighLarge(t *testing.T) {
	for _, k := range available {
		for _, by := range []float32{1, 1 / float32(math.Sqrt(128)), 0.3} {
			for _, large := range []float32{9e10, 2.025e11, 1e20, 3e38} {
				scores := []float32{large * 0.9, large, -large, large * 0.5}
				top, shrink, sum := []float32{negInf}, []float32{0}, []float64{0}
				k.weigh(scores, 4, 4, by, top, shrink, sum)
				require.Equal(t, large*by, top[0], k.name)
				require.Equal(t, []float32{0, 1, 0, 0}, scores, k.name)
				require.Equal(t, 1.0, sum[0], k.name)
			}
		}
	}
}
