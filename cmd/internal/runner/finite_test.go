package runner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
	"github.com/stretchr/testify/require"
)

// Whatever the bits of a number, it is found among others, at any place of eight bytes and after them, where it is infinite or not a number, and only there.
func TestBitsOfExponents(t *testing.T) {
	for _, kind := range []string{"F32", "F16", "BF16", float8} {
		e, bits := encodings[kind], exponents[kind]
		rng, one := rand.New(rand.NewPCG(5, 1)), make([]float32, 1)
		for try := range 1 << 16 {
			data := make([]byte, (try%9+1)*e.bytes)
			for i := range data {
				data[i] = byte(rng.Uint32() & 0x3f3f3f3f)
			}
			code, at := uint32(try), try/3%(len(data)/e.bytes)*e.bytes
			if e.bytes == 4 { // the 16 bits with the exponent, and others
				code = uint32(try)<<16 | rng.Uint32()&1
			}
			copy(data[at:at+e.bytes], u32(code))
			e.decode(one, data[at:])
			require.Equal(t, infinite(one[0]), allSet(data, bits[0], bits[1]), "%s, %x at byte %d of %d", kind, code, at, len(data))
		}
	}
}

// Of each type the first element that is infinite or not a number is said, on however many goroutines a tensor is looked at.
func TestFirstElementThatIsInfinite(t *testing.T) {
	const rows, cols = 7000, 256 // enough for more than one goroutine
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		kind  string
		spoil func(block []byte)
		at    int // in the block
		value float32
	}{
		{"F32", func(b []byte) { copy(b, encode("F32", []float32{-inf})) }, 0, -inf}, {"F16", func(b []byte) { copy(b, encode("F16", []float32{inf})) }, 0, inf},
		{"BF16", func(b []byte) { copy(b, encode("BF16", []float32{nan})) }, 0, nan}, {"Q4_0", func(b []byte) { b[1], b[2] = 0x7c, 0x88 }, 0, nan},
		{"MXFP4", func(b []byte) { b[0], b[4] = 253, 7 }, 3, inf}, {"MXFP4", func(b []byte) { b[0], b[1] = 255, 0x12 }, 0, inf},
		{float8, func(b []byte) { b[0] = 0xff }, 0, nan},
	} {
		t.Run(fmt.Sprintf("%s/%v", c.kind, c.value), func(t *testing.T) {
			e := encodings[c.kind]
			data := make([]byte, rows*cols/e.group*e.bytes)
			sound := tensor{name: "x", encoding: c.kind, shape: []int{rows, cols}, data: data}
			if c.kind == float8 {
				sound.scale, sound.run = func(row, col int) float32 { return 1 }, 128
			}
			a := &archive{reader: &reader{file: file{name: "m"}}}
			require.Greater(t, parts(2, rows, len(data)/scanRate), 1)
			require.NoError(t, failed(func() { require.NotNil(t, a.matrix(sound, rows, cols)) }))
			for _, block := range []int{len(data)/e.bytes - 1, len(data) / e.bytes / 2, 1000} {
				c.spoil(data[block*e.bytes:])
				err := failed(func() { a.matrix(sound, rows, cols) })
				require.Equal(t, ErrFile{File: "m", Field: "tensor x", Why: fmt.Sprintf("element %d is %v", block*e.group+c.at, c.value)}, err)
			}
		})
	}
}

// A row is decoded only for scales and exponents with which an element could be infinite: those of no model that is published.
func TestRowsThatAreDecoded(t *testing.T) {
	scaled := func(scale float32) *tensor {
		return &tensor{encoding: float8, data: make([]byte, 64), run: 16, scale: func(row, col int) float32 {
			if row == 1 && col == 16 {
				return scale
			}
			return 1
		}}
	}
	for scale, want := range map[float32]bool{1: false, 1e30: false, -1e30: false, 1e36: true, -1e36: true, float32(math.NaN()): true} {
		require.Equal(t, want, scaled(scale).doubtful(1, 32), "%v", scale)
		require.False(t, scaled(scale).doubtful(0, 32))
	}
	for exponent := range 256 {
		block := append([]byte{byte(exponent)}, make([]byte, 16)...)
		require.Equal(t, exponent > 252, (&tensor{encoding: "MXFP4", data: block}).doubtful(0, 32), "%d", exponent)
		apart := tensor{encoding: mxfp4, data: make([]byte, 16), run: 32, scale: func(row, col int) float32 { return quant.ScaleMX(byte(exponent)) }}
		require.Equal(t, exponent > 244, apart.doubtful(0, 32), "%d", exponent)
		row := make([]float32, 32)
		for i := range 16 {
			block[i+1] = 0x7f // the largest magnitudes
		}
		product.PackCodes(product.Codes{Name: "MXFP4", Block: 32, Bytes: 17, Decode: encodings["MXFP4"].decode}, 1, 32, block).Row(row, 0)
		require.False(t, infinite(row[0]) && exponent <= 252)
	}
}
