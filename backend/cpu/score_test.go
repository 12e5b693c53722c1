package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// someKeys is n keys of a type, encoded from normal values, at memory that begins skew bytes
// after a cache line.
func someKeys(rng *rand.Rand, dt backend.DType, dim, n, skew int) stored {
	keys := stored{dt: dt, dim: dim, n: n, data: aligned[byte](skew + n*dim*dt.Bits()/8)[skew:], scales: make([]uint32, scaleWords(dt, dim, n)), factor: headFactor}
	if dt.Coding().Scope == backend.ByHead {
		keys.scales[0] = math.Float32bits(0.01)
	}
	if !portable.encode[dt](keys, randoms(rng, n*dim), false) {
		panic("not finite")
	}
	return keys
}

// pieces is rows as runs of random lengths, some of them of a few rows.
func pieces(rng *rand.Rand, rows stored) (runs []stored) {
	for from := 0; from < rows.n; {
		to := min(from+1+rng.IntN([]int{4, rows.n}[rng.IntN(2)]), rows.n)
		runs = append(runs, rows.between(from, to))
		from = to
	}
	return runs
}

// scoresOf is the scores of k for runs of keys in rows of as many.
func scoresOf(t require.TestingT, k *kernels, q []float32, keys ...stored) []float32 {
	scratch, n := make([]float32, chunk*keys[0].dim), 0
	for _, run := range keys {
		n += run.n
	}
	return rowsOf(t, len(q)/keys[0].dim, n, func(dst []float32, stride int) { k.score[keys[0].dt](dst, stride, q, keys, scratch) })
}

// rowsOf is the rows of n that a function writes, which is to leave what is between them as it was.
func rowsOf(t require.TestingT, rows, n int, write func(dst []float32, stride int)) (out []float32) {
	const stride, untouched = chunk + 5, 12345
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
						require.Equal(t, whole, scoresOf(t, k, q, pieces(rng, keys)...), "dim %d, %d rows, in runs", dim, rows)
						for r := range rows {
							for j := range chunk {
								want, magnitude := dot64(q[r*dim:][:dim], exact[j*dim:])
								require.InDelta(t, want, whole[r*chunk+j], magnitude*float64(dim+8)*0x1p-24, "dim %d, row %d of %d, key %d", dim, r, rows, j)
							}
						}
						for range 4 {
							from, row := rng.IntN(chunk), rng.IntN(rows)
							to := from + 1 + rng.IntN(chunk-from)
							for j, x := range scoresOf(t, k, q[row*dim:][:dim], keys.between(from, to)) {
								require.Equal(t, whole[row*chunk+from+j], x, "dim %d, row %d, keys %d to %d, key %d", dim, row, from, to, j)
							}
						}
					}
				}
			})
		}
	}
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
						require.Equal(t, whole, productsOf(t, k, q, pieces(rng, keys)...), "dim %d, %d rows, in runs", dim, rows)
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
							for j, x := range productsOf(t, k, q.between(row, row+1), keys.between(from, to)) {
								require.Equal(t, whole[row*chunk+from+j], x, "dim %d, row %d, keys %d to %d, key %d", dim, row, from, to, j)
							}
						}
					}
				}
			})
		}
	}
}

// Scores of keys far from 0, whose zero points are large, depend on no other key either.
func TestScoreInt8FarFromZero(t *testing.T) {
	for _, k := range available {
		for _, dt := range int8Query() {
			rng := rand.New(rand.NewPCG(uint64(dt), 18))
			for _, dim := range []int{16, 32, 80, 128} {
				keys, q := someKeys(rng, dt, dim, chunk, 0), someKeys(rng, backend.Int8, dim, 5, 0)
				x := randoms(rng, chunk*dim)
				for i := range x {
					x[i] += 30
				}
				require.True(t, portable.encode[dt](keys, x, false))
				whole := productsOf(t, k, q, keys)
				for _, n := range []int{1, 4, 6, 33} {
					part := productsOf(t, k, q, keys.between(0, n))
					for i, x := range part {
						require.Equal(t, whole[i/n*chunk+i%n], x, "%s, %s, dim %d, %d keys", k.name, dt, dim, n)
					}
				}
			}
		}
	}
}

// productsOf is scoresOf for rows of codes.
func productsOf(t require.TestingT, k *kernels, q stored, keys ...stored) []float32 {
	w, n := newIntegers(keys[0].dim), 0
	for _, run := range keys {
		n += run.n
	}
	return rowsOf(t, q.n, n, func(dst []float32, stride int) { k.scoreInt8[keys[0].dt](dst, stride, q, keys, &w) })
}

// What is not finite shows in the scores that it belongs to, as what it is, and in no other;
// subnormal numbers count.
func TestScoreNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, k := range available {
		for _, dt := range storageTypes {
			t.Run(fmt.Sprintf("%s/%s", k.name, dt), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(dt), 9))
				for _, special := range []float32{inf, -inf, float32(math.NaN()), 0x1p-140} {
					for _, dim := range []int{16, 80, 128} {
						keys, q := someKeys(rng, dt, dim, 9, 0), randoms(rng, 5*dim)
						if keys.dt.Quantized() {
							spoiled := keys.row(rng.IntN(9))
							spoiled.setNaN()
						} else {
							at := keys.row(3)
							at.data = at.data[rng.IntN(dim)*dt.Bits()/8:][:dt.Bits()/8]
							portable.encode[dt](at, []float32{special}, false)
						}
						q[rng.IntN(len(q))] = special
						exact := make([]float32, 9*dim)
						portable.decode[dt](exact, keys)
						for i, x := range scoresOf(t, k, q, keys) {
							want, magnitude := dot64(q[i/9*dim:][:dim], exact[i%9*dim:])
							if math.IsNaN(want) || math.IsInf(want, 0) {
								require.True(t, sameFloats([]float32{float32(want)}, []float32{x}), "%v, not %v", x, want)
							} else {
								require.InDelta(t, want, x, magnitude*float64(dim+8)*0x1p-24)
							}
						}
					}
				}
			})
		}
	}
}

// Scores read no byte after their operands, and write none after the scores.
func TestScoreStaysInside(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, dt := range storageTypes {
		for _, dim := range []int{16, 48, 80, 128} {
			for _, n := range []int{1, 3, 4, 5, 7, chunk} {
				keys := someKeys(rng, dt, dim, n, 0)
				keys.data, keys.scales = guard(t, keys.data), guard(t, keys.scales)
				for _, rows := range []int{1, 2, 3, 4, 6} {
					x := someKeys(rng, backend.Int8, dim, rows, 0)
					x.data, x.scales = guard(t, x.data), guard(t, x.scales)
					q, dst := guard(t, randoms(rng, rows*dim)), guarded[float32](t, (rows-1)*chunk+n)
					for _, k := range available {
						scratch, w := guarded[float32](t, chunk*dim), newIntegers(dim)
						w.codes = guarded[byte](t, len(w.codes))
						k.score[dt](dst, chunk, q, []stored{keys}, scratch)
						if k.scoreInt8[dt] != nil {
							k.scoreInt8[dt](dst, chunk, x, []stored{keys}, &w)
						}
					}
				}
			}
		}
	}
}

// Fields of stored are where kernels/asm/amd64/isa.go says that they are.
func TestPlacesOfStored(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("assembly is for processors of 64 bits")
	}
	var s stored
	require.Equal(t, []uintptr{0, 24, 48, 56, 64, 72, 80, 112}, []uintptr{
		unsafe.Offsetof(s.data), unsafe.Offsetof(s.scales), unsafe.Offsetof(s.ahead), unsafe.Offsetof(s.later),
		unsafe.Offsetof(s.wanted), unsafe.Offsetof(s.factors), unsafe.Offsetof(s.n), unsafe.Sizeof(s)})
}
