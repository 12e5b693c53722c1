package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// someKeys is n keys of a type, encoded from normal values, at memory that begins skew bytes
// behind a cache line.
func someKeys(rng *rand.Rand, dt backend.DType, dim, n, skew int) stored {
	keys := stored{dt: dt, dim: dim, data: aligned[byte](skew + n*dim*dt.Bits()/8)[skew:]}
	switch dt {
	case backend.Int4Channel:
		keys.scales = make([]uint32, dim)
	case backend.FP8E4M3, backend.FP8E5M2:
		keys.scales = []uint32{math.Float32bits(0.01)}
	default:
		keys.scales = make([]uint32, n*dt.Groups(dim))
	}
	if !portable.encode[dt](keys, randoms(rng, n*dim), false) {
		panic("not finite")
	}
	return keys
}

// scoresOf is the scores of k in rows of n.
func scoresOf(t require.TestingT, k *kernels, q []float32, keys stored) []float32 {
	scratch := make([]float32, chunk*keys.dim)
	return rowsOf(t, len(q)/keys.dim, keys.rows(), func(dst []float32, stride int) { k.score[keys.dt](dst, stride, q, keys, scratch) })
}

// rowsOf is the rows of n that a function writes, which is to leave what is between them as it was.
func rowsOf(t require.TestingT, rows, n int, write func(dst []float32, stride int)) (out []float32) {
	const stride, untouched = 37, 12345
	dst := make([]float32, rows*stride)
	for i := range dst {
		dst[i] = untouched
	}
	write(dst[:(rows-1)*stride+n], stride)
	for r := range rows {
		out = append(out, dst[r*stride:][:n]...)
		for _, x := range dst[r*stride+n : (r+1)*stride] {
			require.EqualValues(t, untouched, x)
		}
	}
	return out
}

// Scores are near the exact ones, whatever the shape, and each one depends on its row and key alone.
func TestScore(t *testing.T) {
	for _, k := range available {
		for _, dt := range storageTypes {
			t.Run(fmt.Sprintf("%s/%s", k.name, dt), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(dt), 7))
				for _, dim := range []int{2, 16, 20, 32, 48, 64, 80, 96, 112, 128, 192, 256} {
					keys := someKeys(rng, dt, dim, chunk, dim/16%4)
					exact := make([]float32, chunk*dim)
					portable.decode[dt](exact, keys)
					for _, rows := range []int{1, 2, 3, 4, 5, 7, 8} {
						q := randoms(rng, rows*dim+1)[1:]
						whole := scoresOf(t, k, q, keys)
						for r := range rows {
							for j := range chunk {
								want, magnitude := dot64(q[r*dim:][:dim], exact[j*dim:])
								require.InDelta(t, want, whole[r*chunk+j], magnitude*float64(dim+8)*0x1p-24, "dim %d, row %d of %d, key %d", dim, r, rows, j)
							}
						}
						for range 4 {
							from, row := rng.IntN(chunk), rng.IntN(rows)
							to := from + 1 + rng.IntN(chunk-from)
							for j, x := range scoresOf(t, k, q[row*dim:][:dim], between(keys, from, to)) {
								require.Equal(t, whole[row*chunk+from+j], x, "dim %d, row %d, keys %d to %d, key %d", dim, row, from, to, j)
							}
						}
					}
				}
			})
		}
	}
}

// between is rows [from, to).
func between(s stored, from, to int) stored {
	bytes, words := s.dim*s.dt.Bits()/8, s.dt.Groups(s.dim)
	s.data = s.data[from*bytes : to*bytes]
	if words > 0 {
		s.scales = s.scales[from*words : to*words]
	}
	return s
}

// dot64 is a product, and the sum of the magnitudes of its terms.
func dot64(x, y []float32) (sum, magnitude float64) {
	for i, v := range x {
		term := float64(v) * float64(y[i])
		sum += term
		magnitude += math.Abs(term)
	}
	return sum, magnitude
}

// Scores by integers are those of the kernels in Go, and each one depends on its row and key alone.
func TestScoreInt8(t *testing.T) {
	for _, k := range available {
		for _, dt := range int8Query() {
			t.Run(fmt.Sprintf("%s/%s", k.name, dt), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(dt), 8))
				for _, dim := range []int{2, 16, 20, 32, 48, 64, 80, 96, 112, 128, 144, 192, 256, 512, 528} {
					keys := someKeys(rng, dt, dim, chunk, dim/16%4)
					exact := make([]float32, chunk*dim)
					portable.decode[dt](exact, keys)
					for _, rows := range []int{1, 2, 3, 4, 5, 7, 8} {
						q := someKeys(rng, backend.Int8, dim, rows, 1)
						rounded := make([]float32, rows*dim)
						portable.decode[q.dt](rounded, q)
						whole, want := productsOf(t, k, q, keys), productsOf(t, &portable, q, keys)
						for i, x := range whole {
							r, j := i/chunk, i%chunk
							if dt.Bits() == 8 {
								require.Equal(t, want[i], x, "dim %d, row %d of %d, key %d", dim, r, rows, j)
								continue
							}
							_, magnitude := dot64(rounded[r*dim:][:dim], exact[j*dim:])
							require.InDelta(t, want[i], x, magnitude*0x1p-19, "dim %d, row %d of %d, key %d", dim, r, rows, j)
						}
						for range 4 {
							from, row := rng.IntN(chunk), rng.IntN(rows)
							to := from + 1 + rng.IntN(chunk-from)
							for j, x := range productsOf(t, k, between(q, row, row+1), between(keys, from, to)) {
								require.Equal(t, whole[row*chunk+from+j], x, "dim %d, row %d, keys %d to %d, key %d", dim, row, from, to, j)
							}
						}
					}
				}
			})
		}
	}
}

// productsOf is scoresOf for rows of codes.
func productsOf(t require.TestingT, k *kernels, q, keys stored) []float32 {
	w := newIntegers(keys.dim)
	return rowsOf(t, q.rows(), keys.rows(), func(dst []float32, stride int) { k.scoreInt8[keys.dt](dst, stride, q, keys, &w) })
}
