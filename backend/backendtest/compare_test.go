package backendtest

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

func TestRowError(t *testing.T) {
	require.Zero(t, rowError([]float64{3, 4}, []float64{3, 4}))
	require.InDelta(t, 0.2, rowError([]float64{3, 5}, []float64{3, 4}), 1e-12)
	require.InDelta(t, 0.5, rowError([]float64{0, 0.005}, []float64{0, 0}), 1e-12, "a row of zeros counts as the floor")
	require.True(t, math.IsInf(rowError([]float64{3, math.NaN()}, []float64{3, 4}), 1))
	require.True(t, math.IsInf(rowError([]float64{3, math.Inf(1)}, []float64{3, 4}), 1))
}

func TestCompareRowsNamesTheWorst(t *testing.T) {
	want := []float64{1, 1, 1, 1, 1, 1, 1, 1}
	require.NoError(t, compareRows("x", want, want, 2, 1e-5))
	got := []float64{1, 1, 1, 1.1, 1, 1, 1, 3}
	require.ErrorContains(t, compareRows("x", got, want, 2, 0.2, axisOf{"token", 2}, axisOf{"head", 2}), "token 1 head 1")
	require.ErrorContains(t, compareRows("x", got[:6], want[:6], 2, 0.01), "row 1")
	require.NoError(t, compareRows("x", got[:6], want[:6], 2, 0.1))
}

func TestCompareLSE(t *testing.T) {
	inf := math.Inf(-1)
	require.NoError(t, compareLSE([]float64{inf, 1}, []float64{inf, 1.00005}, lseLimit))
	require.Error(t, compareLSE([]float64{inf, 1}, []float64{inf, 1.001}, lseLimit))
	for _, pair := range [][2]float64{{inf, 1}, {1, inf}, {math.NaN(), 1}, {math.NaN(), inf}, {math.Inf(1), inf}} {
		require.Error(t, compareLSE([]float64{pair[0]}, []float64{pair[1]}, lseLimit), "have %v, want %v", pair[0], pair[1])
	}
}

func TestPoisonIsNoValue(t *testing.T) {
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		for _, v := range decode(dt, poison(dt, 3)) {
			require.True(t, v != v, "%s", dt)
		}
	}
	require.Equal(t, []byte{0xa5, 0xa5}, poison(backend.Int4, 3))
}

func TestEncodeDecode(t *testing.T) {
	values := []float32{0, -1.5, 2, 1024, float32(math.Inf(1))}
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		require.Equal(t, values, decode(dt, encode(dt, values)))
	}
}

// A region tells payload from guards on both sides of it.
func TestRegionDiff(t *testing.T) {
	reg := &region[*cpu.Buffer]{name: "x", dt: backend.F16, lead: guard, n: 4, image: poison(backend.F16, 4+2*guard)}
	got := append([]byte(nil), reg.image...)
	require.NoError(t, reg.diff(got))
	for at, want := range map[int]string{-1: "element -1 (guard)", 0: "element 0 (payload)", 3: "element 3 (payload)", 4: "element 4 (guard)"} {
		spoiled := append([]byte(nil), got...)
		spoiled[reg.at(at)+1]++
		require.ErrorContains(t, reg.diff(spoiled), want)
	}
	reg.scratch = true
	spoiled := append([]byte(nil), got...)
	spoiled[reg.at(3)]++
	require.NoError(t, reg.diff(spoiled))
	spoiled[reg.at(4)]++
	require.ErrorContains(t, reg.diff(spoiled), "element 4 (guard)")
}
