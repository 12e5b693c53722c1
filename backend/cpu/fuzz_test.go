//go:build linux

package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// trial is what a kernel is tried with: rows of a storage type that a run of bits says,
// at the end of readable memory, and as float32.
type trial struct {
	rows    stored
	decoded []float32
	factors []float32 // [some, width]: queries or weights
	some    int
	rng     *rand.Rand
}

// newTrial takes the stored bits from data, again and again, and the rest from the seed.
// Scales are finite; where wild is set the factors are not always.
func newTrial(t *testing.T, data []byte, seed uint64, wild bool) trial {
	rng := rand.New(rand.NewPCG(seed, 3))
	dt := storageTypes[rng.IntN(len(storageTypes))]
	dim := []int{16, 32, 48, 64, 80, 96, 112, 128, 144, 192, 256, 20, 2}[rng.IntN(13)]
	n, shift := 1+rng.IntN(chunk), rng.IntN(2) // where elements allow it
	bytes := n * dim * dt.Bits() / 8
	mem := guarded[byte](t, bytes+shift*dt.Bits()/8)[:bytes]
	for i := range mem {
		mem[i] = data[i%len(data)] ^ byte(i/len(data))
	}
	scales := guarded[uint32](t, scaleWords(dt, dim, n))
	for i := range scales {
		scales[i] = someScale(rng, dt)
	}
	tr := trial{rows: stored{dt: dt, dim: dim, n: n, data: mem, scales: scales, factor: headFactor}, some: 1 + rng.IntN(9), rng: rng}
	tr.decoded = make([]float32, n*dim)
	decodeGo[dt](tr.decoded, tr.rows)
	tr.factors = guarded[float32](t, tr.some*max(dim, chunk))
	for i := range tr.factors {
		tr.factors[i] = float32(rng.NormFloat64())
		if wild && rng.IntN(50) == 0 {
			tr.factors[i] = []float32{0, negInf, float32(math.NaN()), 1e-42, -1e-40}[rng.IntN(5)]
		}
	}
	return tr
}

// near holds a sum of float32 products against that of float64, given the sum of the
// magnitudes of finite ones; where that is beyond the range of a float32 the order of adding decides.
func near(t *testing.T, k *kernels, got float32, want, magnitude float64, what string) {
	t.Helper()
	switch {
	case math.IsNaN(want):
		require.True(t, math.IsNaN(float64(got)), "%s: %s is %v, want NaN", k.name, what, got)
	case magnitude >= 1e38:
	case math.IsInf(want, 0):
		require.InDelta(t, want, float64(got), 0, "%s: %s", k.name, what)
	default:
		require.InDelta(t, want, float64(got), 4e-6*magnitude+1e-36, "%s: %s", k.name, what)
	}
}

// size is the magnitude of a finite number, and 0 of others.
func size(x float64) float64 {
	if x = math.Abs(x); x <= math.MaxFloat64 {
		return x
	}
	return 0
}

// Kernels give what float64 arithmetic gives, whatever bits are stored, and read nothing
// beyond their operands.
func FuzzScore(f *testing.F) {
	f.Add([]byte{0x3c, 0x80, 0x01, 0x7f}, uint64(1), false)
	f.Add([]byte{0xff, 0x7c, 0x00, 0xfc, 0x55, 0x7e}, uint64(2), true)
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, wild bool) {
		if len(data) == 0 {
			return
		}
		for i := range uint64(8) {
			tr := newTrial(t, data, seed+i, wild)
			dim, n := tr.rows.dim, tr.rows.n
			q := guard(t, tr.factors[:tr.some*dim])
			for _, k := range available {
				dst := guarded[float32](t, (tr.some-1)*chunk+n)
				k.score[tr.rows.dt](dst, chunk, q, pieces(tr.rng, tr.rows), aligned[float32](chunk*dim))
				for r := range tr.some {
					for j := range n {
						var want, magnitude float64
						for i, x := range q[r*dim:][:dim] {
							p := float64(x) * float64(tr.decoded[j*dim+i])
							want, magnitude = want+p, magnitude+size(p)
						}
						near(t, k, dst[r*chunk+j], want, magnitude, tr.rows.dt.String())
					}
				}
			}
		}
	})
}

func FuzzMix(f *testing.F) {
	f.Add([]byte{0x3c, 0x80, 0x01, 0x7f}, uint64(1), false)
	f.Add([]byte{0xff, 0x7c, 0x00, 0xfc, 0x55, 0x7e}, uint64(2), true)
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, wild bool) {
		if len(data) == 0 {
			return
		}
		for i := range uint64(8) {
			tr := newTrial(t, data, seed+i, wild)
			if tr.rows.dt == backend.Int4Channel { // keys only
				continue
			}
			dim, n := tr.rows.dim, tr.rows.n
			p := guard(t, tr.factors[:(tr.some-1)*chunk+n])
			before, shrink := randoms(tr.rng, tr.some*dim), guard(t, randoms(tr.rng, tr.some))
			for _, k := range available {
				acc := guard(t, before)
				k.mix[tr.rows.dt](acc, shrink, p, chunk, pieces(tr.rng, tr.rows), aligned[float32](chunk*dim))
				for r := range tr.some {
					for i := range dim {
						want := float64(before[r*dim+i]) * float64(shrink[r])
						magnitude, hidden := size(want), false
						for j, x := range p[r*chunk:][:n] {
							v := float64(x) * float64(tr.decoded[j*dim+i])
							if x == 0 { // see kernels.exact
								hidden = hidden || math.IsNaN(v)
								continue
							}
							want, magnitude = want+v, magnitude+size(v)
						}
						if !hidden || k.exact {
							near(t, k, acc[r*dim+i], want, magnitude, tr.rows.dt.String())
						}
					}
				}
			}
		}
	})
}

// Weights, sums and factors are those of float64 arithmetic.
func FuzzWeigh(f *testing.F) {
	f.Add(uint64(1), float32(0.1), float32(3), false)
	f.Add(uint64(7), float32(1), float32(80), true)
	f.Fuzz(func(t *testing.T, seed uint64, by, spread float32, wild bool) {
		if !finite([]float32{by, spread}) || math.Abs(float64(by)) > 1e3 || math.Abs(float64(spread)) > 1e3 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 3))
		rows, n := 1+rng.IntN(9), 1+rng.IntN(chunk)
		scores := randoms(rng, (rows-1)*chunk+n)
		tops, sums := make([]float32, rows), make([]float64, rows)
		for i := range scores {
			scores[i] *= spread
			if wild && rng.IntN(20) == 0 {
				scores[i] = []float32{negInf, float32(math.NaN()), 1e-40, 0}[rng.IntN(4)]
			}
		}
		for r := range rows {
			if tops[r] = negInf; rng.IntN(2) == 0 {
				tops[r], sums[r] = float32(rng.NormFloat64())*spread, 1+rng.Float64()
			}
			if rng.IntN(4) == 0 { // all hidden
				for j := range n {
					scores[r*chunk+j] = negInf
				}
			}
		}
		if by <= 0 { // an infinite score comes with a factor of 1
			by = 1
		}
		for _, k := range available {
			got, top, sum, shrink := guard(t, scores), guard(t, tops), guard(t, sums), guarded[float32](t, rows)
			k.weigh(got, chunk, n, by, top, shrink, sum)
			for r := range rows {
				weighed(t, k, scores[r*chunk:][:n], got[r*chunk:][:n], by, tops[r], top[r], sums[r], sum[r], shrink[r])
			}
		}
	})
}

// weighed holds one row of weigh against the words of its contract.
func weighed(t *testing.T, k *kernels, scores, got []float32, by, oldTop, top float32, oldSum, sum float64, shrink float32) {
	t.Helper()
	high := oldTop
	for _, s := range scores {
		high = max(high, s*by)
	}
	if math.IsNaN(float64(high)) {
		require.True(t, math.IsNaN(float64(top)), k.name)
		return
	}
	require.Equal(t, high, top, k.name)
	want, less := oldSum, 1.0
	if oldSum != 0 && high != oldTop {
		less = math.Exp(float64(oldTop) - float64(high))
	}
	slack := 0.0
	if less < 1 {
		slack = math.Abs(float64(oldTop-high)) * 0x1p-24 * less
	}
	require.InDelta(t, less, float64(shrink), 1e-6*less+slack+1e-36, k.name)
	want *= less
	slack *= oldSum
	for j, s := range scores {
		e := 0.0
		if high != negInf {
			e = math.Exp(float64(float32(s*by) - high))
		}
		require.InDelta(t, e, float64(got[j]), 3e-7*e+1e-37, "%s: exp(%v)", k.name, s*by-high)
		want += e
	}
	require.InDelta(t, want, sum, 1e-6*want+slack+1e-36, k.name)
}
