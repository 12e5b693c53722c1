package gputest

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Transfers, copies and fills of any place and size leave the device with what a
// slice would hold.
func testTransfers[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	const size = 5 << 20 // longer than the staging ring and than the scratch of a copy
	b := bufferOf(t, be, s, backend.Int8, make([]int8, size))
	length := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, size), rapid.SampledFrom([]int{launch.ScratchSize - 1, launch.ScratchSize, launch.ScratchSize + 1}))
	rapid.Check(t, func(rt *rapid.T) {
		image := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		require.NoError(rt, be.Upload(s, b, 0, image))
		place := func(n int) int { return rapid.IntRange(0, size-n).Draw(rt, "at") }
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			n := length.Draw(rt, "n")
			at := place(n)
			switch rapid.SampledFrom([]string{"upload", "copy", "shift", "fill", "download"}).Draw(rt, "do") {
			case "upload":
				data := bytes.Repeat([]byte{byte(n)}, n)
				copy(image[at:], data)
				require.NoError(rt, be.Upload(s, b, at, data))
				clear(data)
			case "copy":
				from := place(n)
				copy(image[at:at+n], image[from:from+n])
				require.NoError(rt, be.Copy(s, b, at, b, from, n))
			case "shift":
				to := min(max(at+rapid.IntRange(-20, 20).Draw(rt, "by"), 0), size-n)
				copy(image[to:to+n], image[at:at+n])
				require.NoError(rt, be.Copy(s, b, to, b, at, n))
			case "fill":
				for i := range n {
					image[at+i] = 0xfe
				}
				require.NoError(rt, be.Fill(s, b, at, n, -2))
			case "download":
				got := make([]byte, n)
				require.NoError(rt, be.Download(s, got, b, at))
				require.True(rt, bytes.Equal(image[at:at+n], got))
			}
		}
		require.True(rt, bytes.Equal(image, content(t, be, s, b)))
	})
}

// Two int4 elements share a byte: neighbours keep their half, also where the copy
// overlaps itself.
func testHalfBytes[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	b, err := be.Alloc(backend.Int4, 15)
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Free(b)) }()
	start := []byte{0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f}
	for _, c := range []struct {
		name string
		do   func() error
		want []byte
	}{
		{"fill", func() error { return be.Fill(s, b, 2, 3, 0) }, []byte{0x21, 0, 0x60, 0x87, 0xa9, 0xcb, 0xed, 0x0f}},
		{"one element", func() error { return be.Fill(s, b, 4, 1, 0) }, []byte{0x21, 0x43, 0x60, 0x87, 0xa9, 0xcb, 0xed, 0x0f}},
		{"apart", func() error { return be.Copy(s, b, 8, b, 0, 3) }, []byte{0x21, 0x43, 0x65, 0x87, 0x21, 0xc3, 0xed, 0x0f}},
		{"up", func() error { return be.Copy(s, b, 2, b, 0, 9) }, []byte{0x21, 0x21, 0x43, 0x65, 0x87, 0xc9, 0xed, 0x0f}},
		{"down", func() error { return be.Copy(s, b, 0, b, 2, 9) }, []byte{0x43, 0x65, 0x87, 0xa9, 0xab, 0xcb, 0xed, 0x0f}},
		{"the last", func() error { return be.Copy(s, b, 14, b, 0, 1) }, []byte{0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x01}},
		{"in place", func() error { return be.Copy(s, b, 2, b, 2, 5) }, start},
	} {
		require.NoError(t, be.Upload(s, b, 0, start))
		require.NoError(t, c.do())
		require.Equal(t, c.want, content(t, be, s, b), c.name)
	}
	for _, err := range []error{be.Fill(s, b, 1, 2, 0), be.Copy(s, b, 1, b, 0, 2), be.Copy(s, b, 0, b, 3, 2), be.Upload(s, b, 1, []byte{0}), be.Upload(s, b, 16, []byte{0})} {
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
}

func testFill[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	for _, c := range []struct {
		dt   backend.DType
		v    float64
		want []byte // an element, little endian; nil: an error
	}{
		{backend.F32, 1, []byte{0, 0, 0x80, 0x3f}},
		{backend.F16, 1 + 1.0/2048, []byte{0, 0x3c}}, // a tie goes to even
		{backend.BF16, -2, []byte{0, 0xc0}},
		{backend.Int8, -128, []byte{0x80}}, {backend.Int8, 128, nil}, {backend.Int8, math.NaN(), nil},
		{backend.U32, math.MaxUint32, []byte{255, 255, 255, 255}}, {backend.U32, -1, nil},
		{backend.I32, -1, []byte{255, 255, 255, 255}},
		{backend.I64, math.MinInt64, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}}, {backend.I64, 1 << 63, nil},
		{backend.FP8E4M3, 0, []byte{0}}, {backend.FP8E4M3, 1, nil}, {backend.Int4, 1, nil},
	} {
		b, err := be.Alloc(c.dt, 7)
		require.NoError(t, err)
		before := bytes.Repeat([]byte{0xa5}, int(b.Bytes()))
		require.NoError(t, be.Upload(s, b, 0, before))
		err = be.Fill(s, b, 2, 4, c.v)
		if c.want == nil {
			require.Error(t, err, "%s %v", c.dt, c.v)
		} else {
			require.NoError(t, err, "%s %v", c.dt, c.v)
			copy(before[2*len(c.want):], bytes.Repeat(c.want, 4))
		}
		require.Equal(t, before, content(t, be, s, b), "%s %v", c.dt, c.v)
		require.NoError(t, be.Free(b))
	}
}
