package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// mixture is the operands of a call of kernels.mix, each of which ends where memory may not be
// touched.
type mixture struct {
	acc, shrink, p []float32
	stride         int
	values         stored
	runs           []stored // of them, nil: one
}

func newMixture(t *testing.T, rng *rand.Rand, dt backend.DType, dim, rows, n int) mixture {
	m := mixture{stride: n + rng.IntN(4), values: someKeys(rng, dt, dim, n, 0)}
	m.values.data, m.values.scales = guard(t, m.values.data), guard(t, m.values.scales)
	m.acc, m.shrink, m.p = guard(t, randoms(rng, rows*dim)), guard(t, randoms(rng, rows)), guard(t, randoms(rng, (rows-1)*m.stride+n))
	m.p[rng.IntN(len(m.p))] = 0
	return m
}

// by mixes with the kernels k.
func (m mixture) by(k *kernels) {
	runs := m.runs
	if runs == nil {
		runs = []stored{m.values}
	}
	k.mix[m.values.dt](m.acc, m.shrink, m.p, m.stride, runs, make([]float32, len(m.values.data)*8/m.values.dt.Bits()))
}

// part is row r alone and its values [from, to), the first of which come with the row's factor.
func (m mixture) part(r, from, to int) mixture {
	dim, shrink := m.values.dim, m.shrink[r:r+1]
	if from > 0 {
		shrink = []float32{1}
	}
	return mixture{acc: m.acc[r*dim:][:dim], shrink: shrink, p: m.p[r*m.stride+from : r*m.stride+to], stride: to - from, values: m.values.between(from, to)}
}

// Results are near the exact ones, whatever the shape, and do not depend on which rows are
// mixed together, nor on how values are cut into calls.
func TestMix(t *testing.T) {
	for _, k := range available {
		for _, dt := range storageTypes {
			if dt == backend.Int4Channel { // keys only
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", k.name, dt), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(dt), 3))
				for _, dim := range []int{2, 16, 20, 32, 48, 64, 80, 96, 112, 128, 192, 256} {
					for _, rows := range []int{1, 2, 3, 4, 5, 7, 33} {
						testMix(t, rng, k, newMixture(t, rng, dt, dim, rows, 2+rng.IntN(chunk)))
					}
				}
			})
		}
	}
}

// narrowed is values that are the first dim elements of their rows.
func (m mixture) narrowed(dim int) mixture {
	rows := len(m.shrink)
	m.values.dim, m.values.wide, m.acc = dim, m.values.dim, m.acc[len(m.acc)-rows*dim:]
	return m
}

// Values may be the first elements of wider rows, as those of latent caches are.
func TestMixOfWiderRows(t *testing.T) {
	for _, k := range available {
		for _, dt := range storageTypes {
			if dt == backend.Int4Channel {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", k.name, dt), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(dt), 4))
				for _, dims := range [][2]int{{16, 18}, {64, 80}, {20, 36}, {96, 128}, {112, 130}, {512, 576}} {
					for _, rows := range []int{1, 3, 5, 16} {
						testMix(t, rng, k, newMixture(t, rng, dt, dims[1], rows, 2+rng.IntN(chunk)).narrowed(dims[0]))
					}
					if k.mixInt8[dt] != nil && dims[0]%32 == 0 {
						testMixInt8(t, rng, k, newMixture(t, rng, dt, dims[1], 7, 2+rng.IntN(chunk)).narrowed(dims[0]))
					}
				}
			})
		}
	}
}

func testMix(t *testing.T, rng *rand.Rand, k *kernels, m mixture) {
	dim, n := m.values.dim, m.values.n
	shape := fmt.Sprintf("dim %d, %d rows, %d values", dim, len(m.shrink), n)
	decoded := make([]float32, n*dim)
	m.values.decode(decoded, portable.decode[m.values.dt])
	if rng.IntN(2) == 0 {
		m.values.ahead = &m.values.data[len(m.values.data)-1] // fetched, not read: what follows would fault
	}
	before := slices.Clone(m.acc)
	m.by(k)
	got := slices.Clone(m.acc)
	copy(m.acc, before)
	m.runs = pieces(rng, m.values)
	m.by(k)
	require.Equal(t, got, m.acc, "%s, in runs", shape)
	column, cut := make([]float32, n), 1+rng.IntN(n-1)
	for r, shrink := range m.shrink {
		i := r*dim + rng.IntN(dim)
		for j := range column {
			column[j] = decoded[j*dim+i%dim]
		}
		want, magnitude := dot64(m.p[r*m.stride:][:n], column)
		old := float64(shrink) * float64(before[i])
		require.InDelta(t, old+want, got[i], (math.Abs(old)+magnitude)*float64(n+4)*0x1p-24, "%s: element %d of row %d", shape, i%dim, r)

		copy(m.acc, before)
		m.part(r, 0, cut).by(k)
		m.part(r, cut, n).by(k)
		require.Equal(t, got[r*dim:][:dim], m.acc[r*dim:][:dim], "%s: row %d, cut at %d", shape, r, cut)
	}
}

// A careful mix has the same bits, but does not look at values whose weight is 0.
func TestMixCarefully(t *testing.T) {
	for _, k := range available {
		if k.exact {
			continue
		}
		for _, dt := range []backend.DType{backend.F32, backend.F16, backend.Int8, backend.FP8E5M2, backend.Int4, backend.MXFP4} {
			rng := rand.New(rand.NewPCG(uint64(dt), 5))
			const dim, rows, n = 96, 6, 19
			m := newMixture(t, rng, dt, dim, rows, n)
			for range rows * n / 2 {
				m.p[rng.IntN(len(m.p))] = 0
			}
			unseen := rng.IntN(n)
			for r := range rows {
				m.p[r*m.stride+unseen] = 0
			}
			before := slices.Clone(m.acc)
			m.by(k)
			want := slices.Clone(m.acc)
			if !dt.Quantized() || dt == backend.FP8E5M2 {
				m.values.put(unseen*dim+7, float32(math.Inf(1)))
			}
			for _, m.runs = range [][]stored{nil, pieces(rng, m.values)} {
				copy(m.acc, before)
				m.by(k.withExact)
				require.Equal(t, want, m.acc, "%s: %s", k.name, dt)
			}
		}
	}
}

// A value that is not finite shows in its column and in no other.
func TestMixNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, k := range available {
		for dt, all := range map[backend.DType][]float32{
			backend.F32: {nan, inf, -inf}, backend.F16: {nan, inf, -inf}, backend.BF16: {nan, inf, -inf},
			backend.FP8E4M3: {nan, -nan}, backend.FP8E5M2: {nan, inf, -inf},
		} {
			for _, bad := range all {
				rng := rand.New(rand.NewPCG(uint64(dt), 9))
				const dim, rows, n = 112, 7, 9
				m := newMixture(t, rng, dt, dim, rows, n)
				for i := range m.p {
					m.p[i] = 1
				}
				column := rng.IntN(dim)
				m.values.put(rng.IntN(n)*dim+column, bad)
				m.by(k)
				for i, x := range m.acc {
					require.Equal(t, i%dim != column, finite([]float32{x}), "%s, %s, %v in column %d: element %d", k.name, dt, bad, column, i)
				}
			}
		}
	}
}

// put stores element i as it is, also where encode refuses it.
func (s *stored) put(i int, x float32) {
	switch s.dt {
	case backend.F32:
		of[uint32](s.data)[i] = math.Float32bits(x)
	case backend.F16:
		of[uint16](s.data)[i] = quant.F16(x)
	case backend.BF16:
		of[uint16](s.data)[i] = quant.BF16(x)
	case backend.FP8E4M3:
		s.data[i] = quant.FP8(s.dt, x) | byte(math.Float32bits(x)>>24)&0x80
	case backend.FP8E5M2:
		s.data[i] = byte(quant.F16(x) >> 8)
	}
}

func BenchmarkMix(b *testing.B) {
	const rows, n, dim = 4, 32, 128
	for _, dt := range storageTypes {
		for _, k := range available {
			b.Run(fmt.Sprintf("%s/%s", dt, k.name), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 1))
				values := someKeys(rng, dt, dim, n, 0)
				acc, p, scratch := aligned[float32](rows*dim), aligned[float32](rows*n), aligned[float32](n*dim)
				ones := []float32{1, 1, 1, 1}
				for b.Loop() {
					k.mix[dt](acc, ones, p, n, []stored{values}, scratch)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
			})
		}
	}
}
