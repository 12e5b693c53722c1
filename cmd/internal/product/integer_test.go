package product

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
	"github.com/stretchr/testify/require"
)

const full = 127 // of a rounded x

// integers is the kernels and types whose products are in integers.
func integers(run func(k *kernel, typ Codes)) {
	for _, k := range available {
		for _, typ := range ggmlTypes {
			if k.formats[typ.Name].row != nil {
				run(k, typ)
			}
		}
	}
}

// exact is a row of weights times x in float64, and the sum of magnitudes.
func exact(m *Matrix, r int, x []float32) (sum, size float64) {
	w := make([]float32, m.Cols)
	m.Row(w, r)
	for i, v := range w {
		p := float64(v) * float64(x[i])
		sum, size = sum+p, size+math.Abs(p)
	}
	return sum, size
}

// checkExact holds products of x, whose blocks are integers of 8 bits times a power of two, against float64.
func checkExact(t *testing.T, m *Matrix, x []float32, n int) {
	out := make([]float32, n*m.Rows)
	m.Mul(out, x, n, false, 0, m.Units(n))
	for i := range n {
		for r := range m.Rows {
			sum, size := exact(m, r, x[i*m.Cols:])
			require.InDelta(t, sum, out[i*m.Rows+r], size*float64(m.Cols/m.codes.Block+3)*0x1p-24, "%s, row %d of %d, weights %d", m.codes.Name, i, n, r)
		}
	}
}

// What integers of 8 bits have is not rounded: a block's scale is exact where its largest magnitude is 127 times a power of two.
func TestIntegersAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	integers(func(k *kernel, typ Codes) {
		for _, n := range []int{1, 2, few, 7} {
			m := matrix(rng, k, typ, 6, cols(typ, 700))
			x := make([]float32, n*m.Cols)
			for i := 0; i < len(x); i += typ.Block {
				unit := math.Ldexp(1, rng.IntN(40)-20)
				for j := range typ.Block {
					x[i+j] = float32(unit * float64(rng.IntN(2*full+1)-full))
				}
				x[i+rng.IntN(typ.Block)] = float32(unit * full)
			}
			checkExact(t, m, x, n)
		}
	})
}

// The largest codes, scales and numbers of x do not overflow, whatever their signs are.
func TestIntegersDoNotOverflow(t *testing.T) {
	integers(func(k *kernel, typ Codes) {
		for _, b := range []byte{0, 0xff, 0x7f, 0x80, 0x0f, 0xf0, 0x88, 0x77} {
			for _, scales := range []byte{0, 0xff, 0x7f, 0x80} {
				data := bytes.Repeat([]byte{b}, typ.Bytes)
				switch typ.Name { // where the scales of a block's groups are
				case "Q4_K", "Q5_K":
					copy(data[4:16], bytes.Repeat([]byte{scales}, 12))
				case "Q6_K":
					copy(data[192:208], bytes.Repeat([]byte{scales}, 16))
				case "IQ4_XS":
					copy(data[2:8], bytes.Repeat([]byte{scales}, 6))
				case "MXFP4":
					data[0] = 100
				}
				for _, at := range ggml.Scales[typ.Name] {
					le.PutUint16(data[at:], quant.F16(-0.75))
				}
				m := packCodes(k, typ, 1, 3*typ.Block, bytes.Repeat(data, 3))
				for _, sign := range []float32{1, -1} {
					x := make([]float32, few*m.Cols)
					for i := range x {
						x[i] = sign * full
					}
					checkExact(t, m, x, 1)
					checkExact(t, m, x, few)
				}
			}
		}
	})
}

// Every exponent of MXFP4 is its own power of two, those without normal float32 as well.
func TestExponents(t *testing.T) {
	integers(func(k *kernel, typ Codes) {
		if typ.Name != "MXFP4" {
			return
		}
		for e := range 256 {
			m := packCodes(k, typ, 1, 32, append([]byte{byte(e)}, bytes.Repeat([]byte{0x12}, 16)...))
			x := make([]float32, few*m.Cols)
			for i := range x {
				x[i] = float32(math.Ldexp(full, 21-e/2))
			}
			if e == 255 { // of which only halves are finite
				m.data = append([]byte{byte(e)}, bytes.Repeat([]byte{0x11}, 16)...)
			}
			checkExact(t, m, x, 1)
			checkExact(t, m, x, few)
		}
	})
}

// Numbers far below all others, zeros and subnormal ones are zeros.
func TestIntegersOfLittle(t *testing.T) {
	integers(func(k *kernel, typ Codes) {
		m := matrix(rand.New(rand.NewPCG(12, 1)), k, typ, 5, 2*typ.Block)
		for _, v := range []float32{0, 0x1p-149, 0x1p-126, 0x1p-101} {
			x, out := make([]float32, few*m.Cols), make([]float32, few*m.Rows)
			for i := range x {
				x[i] = v
			}
			m.Mul(out, x, few, false, 0, m.Units(few))
			require.Equal(t, make([]float32, len(out)), out, "%s, %v", typ.Name, v)
		}
	})
}
