package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var types = []backend.DType{backend.F32, backend.F16, backend.BF16}

func randoms(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// poisoned is n values among others that are NaN.
func poisoned(n int) (all, x []float32) {
	all = slices.Repeat([]float32{float32(math.NaN())}, n+2*maxWidth)
	return all, all[maxWidth : maxWidth+n : maxWidth+n]
}

// checkProduct holds a product of all units, in that many parts, against float64. What is around operands is NaN, and
// so is out, where it does not count.
func checkProduct(t require.TestingT, m *Matrix, rng *rand.Rand, n, parts int, add bool) []float32 {
	_, x := poisoned(n*m.Cols + 1)
	x = x[1:] // no vector begins at a multiple of its size
	copy(x, randoms(rng, len(x)))
	all, out := poisoned(n * m.Rows)
	if add {
		copy(out, randoms(rng, len(out)))
	}
	before, units := slices.Clone(out), m.Units(n)
	for _, i := range rng.Perm(parts) {
		m.Mul(out, x, n, add, i*units/parts, (i+1)*units/parts)
	}
	w := make([]float32, m.Cols)
	for r := range m.Rows {
		m.Row(w, r)
		for i := range n {
			sum, size := 0.0, 0.0
			if add {
				sum = float64(before[i*m.Rows+r])
				size = math.Abs(sum)
			}
			for j, v := range w {
				p := float64(v) * float64(x[i*m.Cols+j])
				sum, size = sum+p, size+math.Abs(p)
			}
			require.InDelta(t, sum, out[i*m.Rows+r], size*float64(m.Cols+3)*0x1p-24+1e-30, "%s, %v, %dx%d, row %d of %d, weights %d", m.kernel.name, m.Type, m.Rows, m.Cols, i, n, r)
		}
	}
	for i, v := range all {
		if i < maxWidth || i >= maxWidth+len(out) {
			require.NotEqual(t, v, v, "%s wrote outside, at %d", m.kernel.name, i-maxWidth)
		}
	}
	return out
}

// Every kernel and type, at both sides of every width, block of rows, band and depth that work is cut at.
func TestMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range available {
		for _, dt := range types {
			for _, rows := range []int{1, 7, 8, 9, 15, 16, 17, 33, 48, 63, 64, 65, 80, 129, 200} {
				m := pack(k, dt, rows, 19, randoms(rng, rows*19))
				for _, n := range []int{1, 2, 3, 5, 6, 7, 13} {
					checkProduct(t, m, rng, n, 1, n%2 == 0)
				}
			}
			for _, size := range [][3]int{{70, depth - 1, 8}, {70, depth, 6}, {130, depth + 1, 5}, {65, depth + 1, 7}, {17, 2*depth + 3, band + 1}, {80, 3, 2*band - 1}, {40, 1, band}} {
				m := pack(k, dt, size[0], size[1], randoms(rng, size[0]*size[1]))
				checkProduct(t, m, rng, size[2], 1, false)
				checkProduct(t, m, rng, size[2], 3, true)
			}
		}
	}
}

func TestMulRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, dt := rapid.SampledFrom(available).Draw(t, "kernel"), rapid.SampledFrom(types).Draw(t, "type")
		rows, cols, n := rapid.IntRange(1, 300).Draw(t, "rows"), rapid.IntRange(1, 40).Draw(t, "cols"), rapid.IntRange(0, 2*band+1).Draw(t, "n")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		m := pack(k, dt, rows, cols, randoms(rng, rows*cols))
		checkProduct(t, m, rng, n, rapid.IntRange(1, 5).Draw(t, "parts"), rapid.Bool().Draw(t, "add"))
	})
}

// A row has the same bits alone and among others, and on however many goroutines.
func TestRowsAreIndependent(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, k := range available {
		for _, dt := range types {
			const n, cols = band + 9, depth + 5
			m := pack(k, dt, 210, cols, randoms(rng, 210*cols))
			x, all, one := randoms(rng, n*cols), make([]float32, n*m.Rows), make([]float32, m.Rows)
			var parts sync.WaitGroup
			for i := range m.Units(n) {
				parts.Go(func() { m.Mul(all, x, n, false, i, i+1) })
			}
			parts.Wait()
			for i := range n {
				m.Mul(one, x[i*cols:], 1, false, 0, m.Units(1))
				require.Equal(t, one, all[i*m.Rows:(i+1)*m.Rows], "%s, %v: row %d", k.name, dt, i)
			}
		}
	}
}

// Weights of every type give the bits of the same weights as f32, on each kernel.
func TestTypesGiveTheBitsOfF32(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, k := range available {
		for _, dt := range types[1:] {
			for _, size := range [][3]int{{7, 1, 1}, {70, 31, 1}, {200, 32, 7}, {260, 33, 1}, {81, 65, 2}, {70, depth + 40, band + 7}} {
				rows, cols, n := size[0], size[1], size[2]
				m := pack(k, dt, rows, cols, randoms(rng, rows*cols))
				exact := make([]float32, rows*cols)
				for r := range rows {
					m.Row(exact[r*cols:], r)
				}
				x, want, got := randoms(rng, n*cols), randoms(rng, n*rows), []float32(nil)
				got = slices.Clone(want)
				pack(k, backend.F32, rows, cols, exact).Mul(want, x, n, true, 0, m.Units(n))
				m.Mul(got, x, n, true, 0, m.Units(n))
				require.Equal(t, want, got, "%s, %v, %v", k.name, dt, size)
			}
		}
	}
}

// Infinities and NaN come out where they belong, and nowhere else.
func TestNotFinite(t *testing.T) {
	const rows, cols, n = 83, 67, 8
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	rng := rand.New(rand.NewPCG(7, 1))
	for _, k := range available {
		for _, dt := range types {
			data := randoms(rng, rows*cols)
			data[5*cols+66], data[82*cols] = inf, nan
			m, x, out := pack(k, dt, rows, cols, data), randoms(rng, n*cols), make([]float32, n*rows)
			x[2*cols+1], x[6*cols+66], x[66] = nan, -inf, 2
			m.Mul(out, x, n, false, 0, m.Units(n))
			for i := range n {
				for r := range rows {
					v := float64(out[i*rows+r])
					switch {
					case i == 2 || r == 82:
						require.True(t, math.IsNaN(v), "%s, %v: %d, %d", k.name, dt, i, r)
					case i == 6:
						require.False(t, v-v == 0, "%s, %v: %d, %d", k.name, dt, i, r)
					case r == 5:
						require.True(t, math.IsInf(v, 0), "%s, %v: %d, %d", k.name, dt, i, r)
					default:
						require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%s, %v: %d, %d is %v", k.name, dt, i, r, v)
					}
				}
			}
		}
	}
}

// Weights are what their type rounds them to, whatever kernel they are packed for.
func TestPack(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const rows, cols = 75, 33
	data := randoms(rng, rows*cols)
	clear(data[cols : 2*cols])
	errs := map[backend.DType]float64{backend.F32: 0, backend.F16: 0x1p-11, backend.BF16: 0x1p-8}
	for _, k := range available {
		for _, dt := range types {
			m, row := pack(k, dt, rows, cols, data), make([]float32, cols)
			for r := range rows {
				m.Row(row, r)
				want := data[r*cols : (r+1)*cols]
				for i, v := range row {
					require.InDelta(t, want[i], v, math.Abs(float64(want[i]))*errs[dt]+0x1p-24, "%s, %v: %d, %d", k.name, dt, r, i)
				}
			}
			require.Panics(t, func() { m.Row(row, rows+maxWidth) })
		}
	}
	require.Same(t, available[0], Pack(backend.F32, 1, 1, data[:1]).kernel)
	t.Setenv(cpu.EnvKernels, "go")
	require.Same(t, &portable, Pack(backend.F32, 1, 1, data[:1]).kernel)
}

func TestRefusesWhatDoesNotFit(t *testing.T) {
	m := Pack(backend.F32, 20, 3, make([]float32, 60))
	for name, call := range map[string]func(){
		"weights":     func() { Pack(backend.F32, 20, 3, make([]float32, 61)) },
		"empty":       func() { Pack(backend.F32, 0, 3, nil) },
		"type":        func() { Pack(backend.Int4, 20, 3, make([]float32, 60)) },
		"type, codes": func() { Pack(backend.Int8, 20, 3, make([]float32, 60)) },
		"input":       func() { m.Mul(make([]float32, 40), make([]float32, 5), 2, false, 0, m.Units(2)) },
		"output":      func() { m.Mul(make([]float32, 39), make([]float32, 6), 2, false, 0, m.Units(2)) },
		"units":       func() { m.Mul(make([]float32, 40), make([]float32, 6), 2, false, 0, m.Units(2)+1) },
	} {
		require.Panics(t, call, name)
	}
}

func TestNoAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	for _, k := range available {
		for _, dt := range types {
			m, x, out := pack(k, dt, 70, 9, make([]float32, 630)), make([]float32, 63), make([]float32, 490)
			require.Zero(t, testing.AllocsPerRun(20, func() {
				m.Mul(out, x, 7, true, 0, m.Units(7))
				m.Mul(out, x, 1, false, 0, m.Units(1))
			}), "%s, %v", k.name, dt)
		}
	}
}

func BenchmarkMul(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range [][2]int{{288, 288}, {768, 288}, {4096, 4096}} {
		data := randoms(rng, size[0]*size[1])
		for _, n := range []int{1, 100} {
			for _, k := range available {
				for _, dt := range types {
					b.Run(fmt.Sprintf("%dx%d/%d/%s/%v", size[0], size[1], n, k.name, dt), func(b *testing.B) {
						m, x, out := pack(k, dt, size[0], size[1], data), randoms(rng, n*size[1]), make([]float32, n*size[0])
						for b.Loop() {
							m.Mul(out, x, n, false, 0, m.Units(n))
						}
						b.ReportMetric(float64(n*size[0]*size[1]*b.N)/float64(b.Elapsed().Nanoseconds()), "mul/ns")
					})
				}
			}
		}
	}
}
