package cpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func TestFillRoundsOrSaysNo(t *testing.T) {
	be, s := open(t, 1)
	for _, c := range []struct {
		dt   backend.DType
		v    float64
		want []byte // an element, little endian; nil: an error
	}{
		{backend.F32, 1, []byte{0, 0, 0x80, 0x3f}},
		{backend.F16, 1 + 1.0/2048, []byte{0, 0x3c}}, // a tie goes to even
		{backend.F16, 1e6, []byte{0, 0x7c}},
		{backend.BF16, -2, []byte{0, 0xc0}},
		{backend.Int8, -128, []byte{0x80}}, {backend.Int8, 2.5, []byte{2}}, {backend.Int8, 128, nil}, {backend.Int8, math.NaN(), nil},
		{backend.U32, math.MaxUint32, []byte{255, 255, 255, 255}}, {backend.U32, 1 << 32, nil}, {backend.U32, -1, nil},
		{backend.I32, -1, []byte{255, 255, 255, 255}}, {backend.I32, 1 << 31, nil},
		{backend.I64, -1, []byte{255, 255, 255, 255, 255, 255, 255, 255}}, {backend.I64, 1 << 63, nil},
		{backend.I64, math.MinInt64, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}},
		{backend.FP8E4M3, 0, []byte{0}}, {backend.FP8E4M3, 1, nil}, {backend.Int4, 1, nil},
	} {
		b, err := be.Alloc(c.dt, 7)
		require.NoError(t, err)
		before := make([]byte, b.Bytes())
		for i := range before {
			before[i] = 0xa5
		}
		require.NoError(t, be.Upload(s, b, 0, before))
		err = be.Fill(s, b, 2, 4, c.v)
		size := c.dt.Bits() / 8
		if c.want == nil {
			require.Error(t, err, "%s %v", c.dt, c.v)
			require.Equal(t, before, b.mem)
			continue
		}
		require.NoError(t, err, "%s %v", c.dt, c.v)
		for i := range 4 {
			copy(before[(2+i)*size:], c.want)
		}
		require.Equal(t, before, b.mem, "%s %v", c.dt, c.v)
	}
}

// Two int4 elements share a byte: neighbours keep their half.
func TestHalfByteElements(t *testing.T) {
	be, s := open(t, 1)
	b, err := be.Alloc(backend.Int4, 7)
	require.NoError(t, err)
	require.EqualValues(t, 4, b.Bytes())
	require.NoError(t, be.Upload(s, b, 0, []byte{0x21, 0x43, 0x65, 0x87}))
	require.NoError(t, be.Fill(s, b, 2, 3, 0))
	require.Equal(t, []byte{0x21, 0, 0x60, 0x87}, b.mem)
	require.NoError(t, be.Copy(s, b, 4, b, 0, 3))
	require.Equal(t, []byte{0x21, 0, 0x21, 0x80}, b.mem)
	require.NoError(t, be.Upload(s, b, 6, []byte{0x09}))
	for _, err := range []error{
		be.Fill(s, b, 1, 2, 0), be.Copy(s, b, 1, b, 0, 2), be.Copy(s, b, 0, b, 3, 2),
		be.Upload(s, b, 1, []byte{0}), be.Upload(s, b, 6, []byte{0, 0}), be.Upload(s, b, 8, []byte{0}),
	} {
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	require.Equal(t, []byte{0x21, 0, 0x21, 0x09}, b.mem)
}

func TestTransferErrors(t *testing.T) {
	be, s := open(t, 1)
	b := floats(t, be, backend.F32, []float32{1, 2, 3, 4})
	h := floats(t, be, backend.F16, []float32{1, 2, 3, 4})
	for _, err := range []error{
		be.Upload(s, b, 0, make([]byte, 3)), be.Upload(s, b, 4, make([]byte, 4)), be.Upload(s, b, -1, make([]byte, 4)),
		be.Upload(s, b, math.MaxInt, make([]byte, 4)), be.Download(s, make([]byte, 20), b, 0),
		be.Copy(s, b, 0, h, 0, 1), be.Copy(s, b, 3, b, 0, 2), be.Copy(s, b, 0, b, 3, 2), be.Copy(s, b, 0, b, 0, -1),
		be.Copy(s, b, 0, b, math.MaxInt, 1), be.Fill(s, b, 0, math.MaxInt, 0), be.Fill(s, b, 5, 0, 0),
	} {
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	require.Equal(t, []float32{1, 2, 3, 4}, values(b))
	require.NoError(t, be.Copy(s, b, 1, b, 0, 3)) // overlapping
	require.Equal(t, []float32{1, 1, 2, 3}, values(b))
	require.NoError(t, be.Upload(s, b, 4, nil))
}
