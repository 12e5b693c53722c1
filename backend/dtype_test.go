package backend_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

func TestDTypeNamesAndSizes(t *testing.T) {
	for _, c := range []struct {
		dt               backend.DType
		name             string
		bits             int
		float, quantized bool
	}{
		{backend.F32, "f32", 32, true, false}, {backend.F16, "f16", 16, true, false}, {backend.BF16, "bf16", 16, true, false},
		{backend.Int8, "int8", 8, false, true}, {backend.FP8E4M3, "fp8e4m3", 8, false, true}, {backend.FP8E5M2, "fp8e5m2", 8, false, true},
		{backend.Int8Asym, "int8asym", 8, false, true}, {backend.Int4, "int4", 4, false, true}, {backend.Int4G64, "int4g64", 4, false, true},
		{backend.Int4Channel, "int4channel", 4, false, true}, {backend.MXFP4, "mxfp4", 4, false, true}, {backend.NVFP4, "nvfp4", 4, false, true},
		{backend.U32, "u32", 32, false, false}, {backend.I32, "i32", 32, false, false}, {backend.I64, "i64", 64, false, false},
	} {
		require.Equal(t, c.name, c.dt.String())
		require.Equal(t, c.bits, c.dt.Bits())
		require.Equal(t, c.float, c.dt.Float(), c.name)
		require.Equal(t, c.quantized, c.dt.Quantized(), c.name)
		parsed, ok := backend.ParseDType(c.name)
		require.True(t, ok)
		require.Equal(t, c.dt, parsed)
	}
	for _, name := range []string{"", "invalid", "F32", "float32", "f8"} {
		_, ok := backend.ParseDType(name)
		require.False(t, ok, name)
	}
	for _, dt := range []backend.DType{backend.Invalid, backend.NumDTypes, 255} {
		require.Equal(t, "invalid", dt.String())
		require.Zero(t, dt.Bits())
		_, ok := dt.Size(0)
		require.False(t, ok)
	}
}

func TestDTypeSizeAtTheBorders(t *testing.T) {
	for _, c := range []struct {
		dt   backend.DType
		n    int
		want int64
		ok   bool
	}{
		{backend.F32, 0, 0, true}, {backend.F32, 3, 12, true}, {backend.F32, -1, 0, false}, {backend.F32, math.MinInt, 0, false},
		{backend.F32, math.MaxInt / 4, math.MaxInt / 4 * 4, true}, {backend.I64, math.MaxInt / 8, math.MaxInt / 8 * 8, true},
		{backend.Int8, math.MaxInt, math.MaxInt, true},
		{backend.Int4, 0, 0, true}, {backend.Int4, 1, 1, true}, {backend.Int4, 2, 1, true}, {backend.Int4, 3, 2, true},
		{backend.Int4, math.MaxInt, math.MaxInt/2 + 1, true},
	} {
		got, ok := c.dt.Size(c.n)
		require.Equal(t, c.ok, ok, "%s %d", c.dt, c.n)
		require.Equal(t, c.want, got, "%s %d", c.dt, c.n)
	}
	const wide = math.MaxInt > math.MaxInt32 // bytes are counted in 64 bits, so that only an int of 64 can be too large
	_, ok := backend.F32.Size(math.MaxInt/4 + 1)
	require.Equal(t, !wide, ok)
	_, ok = backend.I64.Size(math.MaxInt/8 + 1)
	require.Equal(t, !wide, ok)
}

func TestScales(t *testing.T) {
	const blocks, heads, block = 3, 2, 16
	const slots = blocks * heads * block
	for _, c := range []struct {
		dt, words   backend.DType
		dim, groups int
		n           int
	}{
		{backend.Int8, backend.F32, 80, 1, slots}, {backend.Int8Asym, backend.U32, 80, 1, slots},
		{backend.Int4, backend.U32, 64, 2, slots * 2}, {backend.Int4, backend.U32, 80, 3, slots * 3}, {backend.Int4, backend.U32, 8, 1, slots},
		{backend.Int4G64, backend.U32, 64, 1, slots}, {backend.Int4G64, backend.U32, 80, 2, slots * 2},
		{backend.Int4Channel, backend.U32, 80, 0, blocks * heads * 80},
		{backend.MXFP4, backend.U32, 8, 1, slots}, {backend.MXFP4, backend.U32, 128, 1, slots}, {backend.MXFP4, backend.U32, 130, 2, slots * 2},
		{backend.NVFP4, backend.U32, 8, 1, 4 + slots}, {backend.NVFP4, backend.U32, 128, 2, 4 + slots*2}, {backend.NVFP4, backend.U32, 130, 3, 4 + slots*3},
		{backend.FP8E4M3, backend.F32, 80, 0, heads}, {backend.FP8E5M2, backend.F32, 80, 0, heads},
		{backend.F16, backend.Invalid, 80, 0, 0}, {backend.U32, backend.Invalid, 80, 0, 0},
	} {
		words, n, ok := c.dt.Scales(blocks, heads, block, c.dim)
		require.True(t, ok, c.dt)
		require.Equal(t, c.words, words, c.dt)
		require.Equal(t, c.n, n, "%s of %d dims", c.dt, c.dim)
		require.Equal(t, c.groups, c.dt.ScaleWords(c.dim), "%s of %d dims", c.dt, c.dim)
	}
	for _, c := range []struct {
		dt          backend.DType
		heads, want int
	}{{backend.NVFP4, 1, 4}, {backend.NVFP4, 4, 4}, {backend.NVFP4, 5, 8}, {backend.FP8E4M3, 5, 5}, {backend.MXFP4, 5, 0}, {backend.F16, 5, 0}} {
		require.Equal(t, c.want, c.dt.HeadWords(c.heads), "%s of %d heads", c.dt, c.heads)
		require.Equal(t, c.want > 0, c.dt.HeadFactors(), c.dt)
	}
	for _, dt := range []backend.DType{backend.Int8, backend.Int4, backend.Int4Channel, backend.NVFP4} {
		_, _, ok := dt.Scales(math.MaxInt/4, 8, 1, 64)
		require.False(t, ok, dt)
		_, _, ok = dt.Scales(-1, 8, 1, 64)
		require.False(t, ok, dt)
	}
}

// Sizes are compared with arithmetic that cannot overflow.
func TestMul(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		factors := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 70000), rapid.Int()), 0, 4).Draw(r, "factors")
		exact, negative := 1.0, false
		for _, f := range factors {
			exact *= float64(f)
			negative = negative || f < 0
		}
		n, ok := backend.Mul(factors...)
		switch {
		case negative:
			require.False(r, ok)
		case exact < math.MaxInt/2:
			if !ok { // only a product that overflowed on the way to a factor 0 may be refused
				require.Zero(r, exact)
				return
			}
			require.InEpsilon(r, exact+1, float64(n)+1, 1e-9)
		case exact > 2*float64(math.MaxInt):
			require.False(r, ok)
		}
		if !ok {
			require.Zero(r, n)
		}
	})
	n, ok := backend.Mul(math.MaxInt, 1)
	require.True(t, ok)
	require.Equal(t, math.MaxInt, n)
	_, ok = backend.Mul(math.MaxInt/2+1, 2)
	require.False(t, ok)
}
