package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// byInt8 mixes with rounded weights.
func (m mixture) byInt8(k *kernels, mix mixing) {
	runs := m.runs
	if runs == nil {
		runs = []stored{m.values}
	}
	k.mixInt8[m.values.dt](m.acc, m.shrink, m.p, m.stride, runs, make([]float32, chunk*m.values.dim), mix)
}

// none is a mix that is not to be called.
func none([]float32, []float32, []float32, int, []stored, []float32) { panic("mixed otherwise") }

// Weights are within half a step of 1/32767 of a row's largest; results do not depend on what rows are
// mixed together, nor on runs.
func TestMixInt8(t *testing.T) {
	for _, k := range available {
		for dt, mixes := range k.mixInt8 {
			if mixes == nil {
				continue
			}
			dt := backend.DType(dt)
			t.Run(fmt.Sprintf("%s/%s", k.name, dt), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(dt), 13))
				for _, dim := range []int{32, 64, 96, 128, 160, 192, 256, 320} {
					for _, rows := range []int{1, 2, 3, 4, 5, 7, 9} {
						for _, n := range []int{1, 2, 3, 15, 16, 17, chunk} {
							m := newMixture(t, rng, dt, dim, rows, n)
							size := float32(math.Exp2(float64([]int{0, -90, -115, 60}[rng.IntN(4)])))
							for i := range m.p {
								m.p[i] *= size
							}
							testMixInt8(t, rng, k, m)
						}
					}
				}
			})
		}
	}
}

func testMixInt8(t *testing.T, rng *rand.Rand, k *kernels, m mixture) {
	dim, n := m.values.dim, m.values.n
	shape := fmt.Sprintf("dim %d, %d rows, %d values", dim, len(m.shrink), n)
	decoded, before := make([]float32, n*dim), slices.Clone(m.acc)
	m.values.decode(decoded, portable.decode[m.values.dt])
	m.byInt8(k, none)
	got := slices.Clone(m.acc)
	for r, shrink := range m.shrink {
		factors, largest := m.p[r*m.stride:][:n], 0.0
		for j, p := range factors {
			largest = max(largest, math.Abs(float64(p)*float64(math.Float32frombits(m.values.scales[j]))))
		}
		for i := range dim {
			want, wrong := float64(shrink)*float64(before[r*dim+i]), math.Abs(float64(before[r*dim+i]))*0x1p-20
			for j, p := range factors {
				want += float64(p) * float64(decoded[j*dim+i])
				code := float64(decoded[j*dim+i]) / float64(math.Float32frombits(m.values.scales[j]))
				wrong += math.Abs(code) * largest * (0.501/32767 + 0x1p-22)
			}
			require.InDelta(t, want, got[r*dim+i], wrong+math.Abs(want)*0x1p-22, "%s: element %d of row %d", shape, i, r)
		}
		copy(m.acc, before)
		m.part(r, 0, n).byInt8(k, none)
		require.Equal(t, got[r*dim:][:dim], m.acc[r*dim:][:dim], "%s: row %d alone", shape, r)
	}
	copy(m.acc, before)
	m.runs = pieces(rng, m.values)
	m.byInt8(k, none)
	require.Equal(t, got, m.acc, "%s, in runs", shape)
}

// Rows with factors that cannot be rounded, and other dims, are mixed as usual; rows beside them are not.
func TestMixInt8Otherwise(t *testing.T) {
	for _, k := range available {
		for dt, mixes := range k.mixInt8 {
			if mixes == nil {
				continue
			}
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), negInf} {
				rng := rand.New(rand.NewPCG(14, 14))
				m := newMixture(t, rng, backend.DType(dt), 64, 6, 9)
				before := slices.Clone(m.acc)
				m.byInt8(k, none)
				want := slices.Clone(m.acc)
				copy(m.acc, before)
				clear(m.p[2*m.stride:][:9])
				m.p[2*m.stride+4] = bad
				m.part(2, 0, 9).by(k)
				copy(want[2*64:][:64], m.acc[2*64:])
				copy(m.acc, before)
				m.byInt8(k, k.mix[dt])
				for r := range 6 {
					require.True(t, sameFloats(want[r*64:][:64], m.acc[r*64:][:64]), "%s: %v, row %d", k.name, bad, r)
				}
			}
			m := newMixture(t, rand.New(rand.NewPCG(15, 15)), backend.DType(dt), 80, 3, 9)
			before := slices.Clone(m.acc)
			m.by(k)
			want := slices.Clone(m.acc)
			copy(m.acc, before)
			m.byInt8(k, k.mix[dt])
			require.Equal(t, want, m.acc)
		}
	}
}
