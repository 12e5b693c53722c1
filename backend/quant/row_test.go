package quant

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// encoded is a row as a device holds it.
type encoded struct {
	codes  []byte
	scales []uint32
}

func roomFor(t require.TestingT, dt backend.DType, dim int) encoded {
	bytes, ok := dt.Size(dim)
	require.True(t, ok)
	return encoded{make([]byte, bytes), make([]uint32, dt.ScaleWords(dim))}
}

// Rows of every type are read within their bounds, from exactly the room that backend
// says they take.
func TestRowsStayWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		for _, dt := range perRow {
			checkRow(t, dt, x)
		}
	})
}

func checkRow(t require.TestingT, dt backend.DType, x []float32) {
	e, back := roomFor(t, dt, len(x)), make([]float32, len(x))
	require.True(t, EncodeRow(dt, e.codes, e.scales, slices.Clone(x), false))
	DecodeRow(dt, back, e.codes, e.scales)
	for i, v := range x {
		near(t, v, back[i], BoundRow(dt, x, i), "%s: value %d", dt, i)
	}
}

// Rows with the ranges of real models, one channel of them as large as the layer's
// largest key or value.
func TestRowsOfMeasuredRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, top := range kvRanges(t) {
		for _, dim := range []int{64, 80, 128} {
			x := noise(r, dim, top/20, 0)
			x[r.IntN(dim)] = float32(top)
			for _, dt := range perRow {
				checkRow(t, dt, x)
			}
			for _, dt := range fp8s {
				scale, codes, back := float32(top)/MaxFP8(dt), make([]byte, dim), make([]float32, dim)
				require.True(t, EncodeFP8(dt, codes, x, scale, false))
				DecodeFP8(dt, back, codes, scale)
				for i, v := range x {
					near(t, v, back[i], BoundFP8(dt, v, scale), "%s: value %d", dt, i)
				}
			}
		}
	}
}

// Keys of a block by channels are read within each channel's bound: the group is what
// a channel has in the block, and each value is what Affine makes of that.
func TestChannelsStayWithinTheirBounds(t *testing.T) {
	channel := Affine{Bits: 4}
	rapid.Check(t, func(t *rapid.T) {
		dim, n := 2*rapid.IntRange(1, 5).Draw(t, "dim/2"), rapid.SampledFrom([]int{1, 2, 16, 64, 300}).Draw(t, "n")
		rows := make([]float32, 0, n*dim)
		for len(rows) < n*dim {
			rows = append(rows, drawRow(t)...)
		}
		rows = rows[:n*dim]
		before := slices.Clone(rows)
		codes, words := make([]byte, n*dim/2), make([]uint32, dim)
		for i := range codes {
			codes[i] = 0xa5 // of an earlier block
		}
		require.True(t, EncodeChannels(codes, words, rows, false))
		require.Equal(t, before, rows)
		back := make([]float32, n*dim)
		for i := range n {
			DecodeChannels(back[i*dim:][:dim], codes[i*dim/2:], words)
		}
		for d := range dim {
			var column, read []float32
			for i := range n {
				column, read = append(column, rows[i*dim+d]), append(read, back[i*dim+d])
			}
			channel.within(t, column, read)
			require.Equal(t, channel.stored(t, column), read)
		}
	})
}

func TestChannelsRefuseWhatIsNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	rows := []float32{1, 2, inf, 4, -3, 6}
	codes, words := make([]byte, 3), make([]uint32, 2)
	require.False(t, EncodeChannels(codes, words, rows, false))
	require.True(t, EncodeChannels(codes, words, rows, true))
	back := make([]float32, 2)
	DecodeChannels(back, codes[1:], words)
	require.InDelta(t, 3, back[0], Affine{Bits: 4}.Bound([]float32{1, 3, -3}), "the channel's largest")
}

// A type whose scales belong to heads or channels has no rows to encode: asking is a
// mistake in the program.
func TestRowsOfOtherTypesPanic(t *testing.T) {
	for _, dt := range []backend.DType{backend.F32, backend.FP8E4M3, backend.Int4Channel} {
		require.Panics(t, func() { EncodeRow(dt, nil, nil, []float32{1}, false) })
		require.Panics(t, func() { DecodeRow(dt, []float32{1}, nil, nil) })
	}
}

// The codes of a fixed set of rows, as every device and processor must make them: one with
// fused multiply-add, or another order of operations, would make others.
func TestCodesAreTheSameEverywhere(t *testing.T) {
	want := map[backend.DType]string{
		backend.Int8:     "8bd7d54dd4ae9ace",
		backend.Int8Asym: "11d2618c5d11f67c",
		backend.Int4:     "87ac66c4747bda9a",
		backend.Int4G64:  "277d97895190e27b",
		backend.MXFP4:    "54e75114db77eaec",
		backend.NVFP4:    "999ccc90e33fc6d2",
	}
	r := rand.New(rand.NewPCG(7, 7))
	var rows [][]float32
	for range 500 {
		x := make([]float32, 80)
		offset, unit := int32(r.Uint32()>>6), float32(math.Ldexp(1, r.IntN(40)-45))
		for i := range x { // whole numbers: nothing here depends on the processor, either
			x[i] = float32(int32(r.Uint32()>>8)-offset) * unit
		}
		rows = append(rows, x)
	}
	for _, dt := range perRow {
		sum := fnv.New64a()
		for _, x := range rows {
			e := roomFor(t, dt, len(x))
			require.True(t, EncodeRow(dt, e.codes, e.scales, slices.Clone(x), false))
			sum.Write(e.codes)
			require.NoError(t, binary.Write(sum, binary.LittleEndian, e.scales))
		}
		require.Equal(t, want[dt], fmt.Sprintf("%016x", sum.Sum64()), dt)
	}
}

// Storing and reading a row allocates nothing.
func TestRowsAllocateNothing(t *testing.T) {
	x, back := noise(rand.New(rand.NewPCG(8, 8)), 128, 1, 0), make([]float32, 128)
	none := func(what string, f func()) {
		t.Helper()
		require.Zero(t, testing.AllocsPerRun(20, f), what)
	}
	for _, dt := range perRow {
		e := roomFor(t, dt, 128)
		none(dt.String(), func() {
			EncodeRow(dt, e.codes, e.scales, x, false)
			DecodeRow(dt, back, e.codes, e.scales)
		})
	}
	codes, words := make([]byte, 128), make([]uint32, 8)
	for _, dt := range fp8s {
		none(dt.String(), func() {
			EncodeFP8(dt, codes, x, 0.1, false)
			DecodeFP8(dt, back, codes, 0.1)
		})
	}
	none("channels", func() {
		EncodeChannels(codes, words, x, false)
		DecodeChannels(back[:8], codes, words)
	})
	none("3 bits", func() {
		Affine{3, 32}.Encode(codes, words, x, false)
		Affine{3, 32}.Decode(back, codes, words)
	})
	none("hadamard", func() { Hadamard(back) })
}

func BenchmarkRows(b *testing.B) {
	const dim = 128
	x, back := noise(rand.New(rand.NewPCG(9, 9)), dim, 1, 0), make([]float32, dim)
	codes, words := make([]byte, dim), make([]uint32, dim/32)
	bench := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(4 * dim) // of float32
			for b.Loop() {
				f()
			}
		})
	}
	for _, dt := range perRow {
		bench("encode/"+dt.String(), func() { EncodeRow(dt, codes, words, x, false) })
		bench("decode/"+dt.String(), func() { DecodeRow(dt, back, codes, words) })
	}
	for _, bits := range []int{2, 3} {
		a := Affine{bits, 32}
		bench(fmt.Sprintf("encode/%d bits", bits), func() { a.Encode(codes, words, x, false) })
		bench(fmt.Sprintf("decode/%d bits", bits), func() { a.Decode(back, codes, words) })
	}
	for _, dt := range fp8s {
		bench("encode/"+dt.String(), func() { EncodeFP8(dt, codes, x, 0.1, false) })
		bench("decode/"+dt.String(), func() { DecodeFP8(dt, back, codes, 0.1) })
	}
	bench("hadamard", func() { Hadamard(back) })
}
