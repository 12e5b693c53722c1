package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// multiplying is the kernels that have products of matrices.
func multiplying() (out []*kernels) {
	for _, k := range available {
		if k.gemm != nil {
			out = append(out, k)
		}
	}
	return out
}

// guardedMatrix is a random matrix in guarded memory, its stride that much above its columns.
func guardedMatrix(t testing.TB, rng *rand.Rand, rows, cols, extra int) matrix {
	m := matrix{rows: rows, cols: cols, stride: cols + extra}
	m.data = guard(t, randoms(rng, (rows-1)*m.stride+cols))
	return m
}

func (m *matrix) at(r, c int) *float32 { return &m.data[r*m.stride+c] }

// productError is the largest error of c as before*shrink + a·b, in units of what rounding
// each of its additions may do.
func productError(c, before matrix, shrink []float32, a, b matrix) (worst float64) {
	for r := range c.rows {
		for j := range c.cols {
			sum, size := 0.0, 0.0
			if shrink != nil {
				sum = float64(*before.at(r, j)) * float64(shrink[r])
				size = math.Abs(sum)
			}
			for i := range a.cols {
				x := float64(*a.at(r, i)) * float64(*b.at(i, j))
				sum, size = sum+x, size+math.Abs(x)
			}
			unit := size * float64(a.cols+1) * 0x1p-24
			worst = max(worst, math.Abs(float64(*c.at(r, j))-sum)/unit)
		}
	}
	return worst
}

// All rows and columns of a product, and no more of memory, at every way that they come
// apart into blocks; and with the same bits from every kernel.
func TestGemm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, rows := range []int{1, 2, 3, 5, 6, 7, 12, 17, 32} {
		for _, cols := range []int{16, 32, 48, 64, 80, 96, 112, 128, 144, 256} {
			for _, depth := range []int{1, 3, 64} {
				a, b := guardedMatrix(t, rng, rows, depth, 3), guardedMatrix(t, rng, depth, cols, 5)
				before, shrink := guardedMatrix(t, rng, rows, cols, 7), guard(t, randoms(rng, rows))
				for _, by := range [][]float32{nil, shrink} {
					var first matrix
					for _, k := range multiplying() {
						c := before
						c.data = guard(t, before.data)
						k.gemm(c, by, a, b)
						require.LessOrEqual(t, productError(c, before, by, a, b), 1.0, "%s: %dx%dx%d", k.name, rows, depth, cols)
						for i, x := range c.data {
							if i%c.stride >= cols {
								require.Equal(t, before.data[i], x, "%s: between rows", k.name)
							}
						}
						if first.data == nil {
							first = c
						}
						require.Equal(t, first.data, c.data, "%s: %dx%dx%d", k.name, rows, depth, cols)
					}
				}
			}
		}
	}
}

// A row's bits do not depend on how many rows there are, nor on where products of the depth
// are cut.
func TestGemmRowsAreIndependent(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	a, b := guardedMatrix(t, rng, 13, 40, 0), guardedMatrix(t, rng, 40, 80, 0)
	for _, k := range multiplying() {
		whole := matrix{data: make([]float32, 13*80), rows: 13, cols: 80, stride: 80}
		k.gemm(whole, nil, a, b)
		one := []float32{1}
		for r := range whole.rows {
			c := matrix{data: make([]float32, 80), rows: 1, cols: 80, stride: 80}
			row := matrix{data: a.data[r*40:], rows: 1, cols: 17, stride: 40}
			k.gemm(c, nil, row, matrix{data: b.data, rows: 17, cols: 80, stride: 80})
			row.data, row.cols = row.data[17:], 23
			k.gemm(c, one, row, matrix{data: b.data[17*80:], rows: 23, cols: 80, stride: 80})
			require.Equal(t, whole.data[r*80:][:80], c.data, "%s: row %d", k.name, r)
		}
	}
}

// What is not finite goes where it belongs and nowhere else, and denormals count.
func TestGemmNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, k := range multiplying() {
		a := matrix{data: []float32{1, 2, 0, 1, 0x1p-149, 0}, rows: 3, cols: 2, stride: 2}
		b := matrix{data: slices.Repeat([]float32{1}, 32), rows: 2, cols: 16, stride: 16}
		b.data[3], b.data[20] = float32(math.NaN()), -inf
		c := matrix{data: make([]float32, 48), rows: 3, cols: 16, stride: 16}
		k.gemm(c, nil, a, b)
		for r := range c.rows {
			for j := range c.cols {
				want := *a.at(r, 0)**b.at(0, j) + *a.at(r, 1)**b.at(1, j)
				got := *c.at(r, j)
				require.True(t, got == want || got != got && want != want, "%s: %d, %d: %v, not %v", k.name, r, j, got, want)
			}
		}
	}
}

func TestGemmRefusesWhatDoesNotFit(t *testing.T) {
	good := func(rows, cols int) matrix {
		return matrix{data: make([]float32, rows*cols), rows: rows, cols: cols, stride: cols}
	}
	for _, k := range multiplying() {
		for name, call := range map[string]func(){
			"columns":         func() { k.gemm(good(2, 8), nil, good(2, 3), good(3, 8)) },
			"depth":           func() { k.gemm(good(2, 16), nil, good(2, 4), good(3, 16)) },
			"no depth":        func() { k.gemm(good(2, 16), nil, good(2, 0), good(0, 16)) },
			"rows":            func() { k.gemm(good(3, 16), nil, good(2, 3), good(3, 16)) },
			"factors":         func() { k.gemm(good(2, 16), []float32{1}, good(2, 3), good(3, 16)) },
			"data":            func() { k.gemm(matrix{make([]float32, 31), 2, 16, 16}, nil, good(2, 3), good(3, 16)) },
			"overlap":         func() { k.gemm(matrix{make([]float32, 32), 2, 16, 8}, nil, good(2, 3), good(3, 16)) },
			"transpose":       func() { k.transpose(good(16, 32), good(16, 16)) },
			"transposed rows": func() { k.transpose(good(16, 8), good(8, 16)) },
		} {
			require.Panics(t, call, "%s: %s", k.name, name)
		}
	}
}

func TestTranspose(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, rows := range []int{16, 32, 64} {
		for _, cols := range []int{16, 48, 80, 128} {
			src := guardedMatrix(t, rng, rows, cols, 0)
			for _, k := range multiplying() {
				dst := guardedMatrix(t, rng, cols, rows, 3)
				before := slices.Clone(dst.data)
				k.transpose(dst, src)
				for i, x := range dst.data {
					want := before[i]
					if r, c := i/dst.stride, i%dst.stride; c < rows {
						want = *src.at(c, r)
					}
					require.Equal(t, want, x, fmt.Sprintf("%s: %dx%d, element %d", k.name, rows, cols, i))
				}
			}
		}
	}
}
