package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// storageTypes is every type that keys are stored as; values have all but the last.
var storageTypes = func() (all []backend.DType) {
	var keysOnly []backend.DType
	for dt := range backend.StorageTypes {
		if dt.Coding().Values == dt {
			all = append(all, dt)
		} else {
			keysOnly = append(keysOnly, dt)
		}
	}
	return append(all, keysOnly...)
}()

// scaleWords is how many words of scales go with n rows of a head.
func scaleWords(dt backend.DType, dim, n int) int {
	_, words, _ := dt.Scales(1, 1, n, dim)
	if dt.Coding().Scope == backend.ByGroup {
		words -= dt.HeadWords(1)
	}
	return words
}

// fp8Scale spreads values of unit variance over the range of 8-bit floats.
const fp8Scale = 1.0 / 64

// headFactor is the factor of a head of a type whose groups have theirs relative to one: no power of two.
const headFactor = 0.013

// someScale is a word of scales of a type that has some, from 0 to 1.
func someScale(rng *rand.Rand, dt backend.DType) uint32 {
	switch dt.Coding().Scale {
	case backend.Factor:
		return math.Float32bits(rng.Float32())
	case backend.Exponents:
		return 0x60606060 + rng.Uint32()&0x1f1f1f1f
	case backend.Minifactors:
		return rng.Uint32() & 0x37373737
	}
	return uint32(quant.WordOf(-rng.Float32(), rng.Float32(), dt.Bits()))
}

// emptyPlane is a plane of slots that no token is in: what reads them sees NaN.
func emptyPlane(t testing.TB, be *Backend, v backend.CacheView[*Buffer], dt backend.DType, dim int) backend.Plane[*Buffer] {
	t.Helper()
	n := v.Blocks * v.KVHeads * v.BlockSize * dim
	data, err := be.Alloc(dt, n)
	require.NoError(t, err)
	for i := range data.mem {
		data.mem[i] = 0xff
	}
	p := backend.Plane[*Buffer]{Data: data, Dim: dim}
	words, n, ok := dt.Scales(v.Blocks, v.KVHeads, v.BlockSize, dim)
	require.True(t, ok)
	if words == backend.Invalid {
		return p
	}
	scales, err := be.Alloc(words, n)
	require.NoError(t, err)
	for i := range view[uint32](scales) {
		view[uint32](scales)[i] = 0x7fc07fc0 // as a float32, and as a step
		switch c := dt.Coding(); {
		case c.Scale == backend.Minifactors && i < dt.HeadWords(v.KVHeads):
			view[float32](scales)[i] = headFactor * float32(1+i)
		case c.Scale.PerWord() > 1:
			view[uint32](scales)[i] = math.MaxUint32
		case c.Scope == backend.ByHead:
			view[float32](scales)[i] = fp8Scale
		}
	}
	p.Scales = backend.Some(scales)
	return p
}

// planeFrom stores rows [blocks, heads, block, dim]; slots whose row is NaN stay empty.
func planeFrom(t testing.TB, be *Backend, v backend.CacheView[*Buffer], dt backend.DType, dim int, rows []float32) backend.Plane[*Buffer] {
	t.Helper()
	out := emptyPlane(t, be, v, dt, dim)
	p := planeOf(v, out)
	step := 1 // slots that are stored together
	if dt == backend.Int4Channel {
		step = v.BlockSize
	}
	for first := 0; first < v.Blocks*v.KVHeads*v.BlockSize; first += step {
		x := rows[first*dim:][:step*dim]
		if math.IsNaN(float64(x[0])) {
			continue
		}
		head := first / v.BlockSize
		require.True(t, portable.encode[dt](p.at(head/v.KVHeads, head%v.KVHeads, first%v.BlockSize, step), x, step > 1))
	}
	return out
}
