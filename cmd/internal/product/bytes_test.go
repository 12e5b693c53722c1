package product

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/stretchr/testify/require"
)

// fileBytes is weights as a file has them, at an address that no number is aligned to.
func fileBytes(dtype backend.DType, data []float32) []byte {
	out := []byte{0}
	for _, v := range data {
		switch dtype {
		case backend.F32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		case backend.F16:
			out = binary.LittleEndian.AppendUint16(out, quant.F16(v))
		default:
			out = binary.LittleEndian.AppendUint16(out, quant.BF16(v))
		}
	}
	return out[1:]
}

// Bytes of a file are the matrix that Pack makes of the numbers, for all kernels, at both sides of the width of panels and the columns that are
// copied at a time, with one goroutine for each panel.
func TestPackBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, k := range available {
		for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
			for _, rows := range []int{1, 8, 15, 16, 17, 47, 65} {
				for _, cols := range []int{1, 63, 64, 65, 200} {
					data := randoms(rng, rows*cols)
					got := packBytes(k, dt, rows, cols, fileBytes(dt, data), func(n int, f func(from, to int)) {
						var panels sync.WaitGroup
						for i := range n {
							panels.Go(func() { f(i, i+1) })
						}
						panels.Wait()
					})
					want := pack(k, dt, rows, cols, data)
					require.Equal(t, want.data, got.data, "%s, %v, %dx%d", k.name, dt, rows, cols)
					x, products := randoms(rng, 3*cols), [2][]float32{make([]float32, 3*rows), make([]float32, 3*rows)}
					want.Mul(products[0], x, 3, false, 0, want.Units(3))
					got.Mul(products[1], x, 3, false, 0, got.Units(3))
					require.Equal(t, products[0], products[1], "%s, %v, %dx%d", k.name, dt, rows, cols)
				}
			}
		}
	}
	for name, f := range map[string]func(){
		"size":  func() { PackBytes(backend.F16, 2, 3, make([]byte, 11), nil) },
		"empty": func() { PackBytes(backend.F16, 0, 3, nil, nil) },
		"type":  func() { PackBytes(backend.Int8, 1, 32, make([]byte, 36), nil) },
	} {
		require.Panics(t, f, name)
	}
}
