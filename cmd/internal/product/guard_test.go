//go:build linux

package product

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/stretchr/testify/require"
)

// guarded is a copy of x between pages whose use is a fault, at the end of its own pages or at their beginning.
func guarded[T float32 | byte](t testing.TB, x []T, end bool) []T {
	t.Helper()
	page, size := os.Getpagesize(), len(x)*int(unsafe.Sizeof(x[0]))
	room := (size + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, room+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(mem)) })
	require.NoError(t, syscall.Mprotect(mem[:page], syscall.PROT_NONE))
	require.NoError(t, syscall.Mprotect(mem[page+room:], syscall.PROT_NONE))
	begin := page
	if end {
		begin += room - size
	}
	out := unsafe.Slice((*T)(unsafe.Pointer(&mem[begin])), len(x))
	copy(out, x)
	return out
}

// No kernel reads or writes outside of the weights, the input or the result, on either side.
func TestMulStaysInside(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, k := range available {
		for _, dt := range types {
			for _, size := range [][3]int{{1, 1, 1}, {7, 31, 1}, {16, 32, 1}, {64, 33, 1}, {65, 3, 1}, {129, 65, 1}, {15, 31, 2}, {48, 5, 5},
				{80, 33, 6}, {200, 64, 7}, {63, depth + 1, 6}, {64, 2, band + 1}} {
				rows, cols, n := size[0], size[1], size[2]
				m, input := pack(k, dt, rows, cols, randoms(rng, rows*cols)), randoms(rng, n*cols)
				want := make([]float32, n*rows)
				m.Mul(want, input, n, false, 0, m.Units(n))
				for _, end := range []bool{true, false} {
					inside, x, out := *m, guarded(t, input, end), guarded(t, make([]float32, n*rows), end)
					inside.data = guarded(t, m.data, end)
					inside.Mul(out, x, n, true, 0, m.Units(n))
					inside.Mul(out, x, n, false, 0, m.Units(n))
					require.Equal(t, want, out, "%s, %v, %v", k.name, dt, size)
				}
			}
		}
	}
}

// Nor does any with codes.
func TestCodesStayInside(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for _, k := range available {
		for _, typ := range ggmlTypes {
			for _, size := range [][3]int{{1, 1, 1}, {4, 256, 1}, {7, 31, 1}, {8, 1024, 1}, {5, 3, 2}, {unit + 3, 33, 6}, {9, columns + 256, 7}, {6, 256, few}} {
				m := matrix(rng, k, typ, size[0], cols(typ, size[1]))
				n := size[2]
				input, want := randoms(rng, n*m.Cols), make([]float32, n*m.Rows)
				m.Mul(want, input, n, false, 0, m.Units(n))
				for _, end := range []bool{true, false} {
					inside, x, out := *m, guarded(t, input, end), guarded(t, make([]float32, n*m.Rows), end)
					inside.data = guarded(t, m.data, end)
					inside.Mul(out, x, n, true, 0, m.Units(n))
					inside.Mul(out, x, n, false, 0, m.Units(n))
					require.Equal(t, want, out, "%s, %s, %v", k.name, typ.Name, size)
				}
			}
		}
	}
}

// Every code of 16 bits, subnormal, infinite or no number, is in all kernels what backend/quant says.
func TestEveryCode(t *testing.T) {
	for dt, decode := range map[backend.DType]func(uint16) float32{backend.F16: quant.FromF16, backend.BF16: quant.FromBF16} {
		want := make([]float32, 1<<16)
		for code := range want {
			want[code] = decode(uint16(code))
		}
		for _, k := range available {
			m, out := pack(k, dt, len(want), 1, want), make([]float32, len(want))
			for _, what := range []string{"a row", "a product"} {
				if what == "a row" {
					for r := range out {
						m.Row(out[r:], r)
					}
				} else {
					m.Mul(out, []float32{1}, 1, false, 0, m.Units(1))
				}
				for code, v := range want {
					if got := out[code]; got != v && (got == got || v == v) {
						t.Fatalf("%s of %s, %v: code %#x is %v, need %v", what, k.name, dt, code, got, v)
					}
				}
			}
		}
	}
}
