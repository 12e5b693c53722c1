package quant

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPackedLen(t *testing.T) {
	for bits := 1; bits <= 8; bits++ {
		for n := range 100 {
			require.Equal(t, (n*bits+7)/8, PackedLen(n, bits))
		}
	}
	require.Equal(t, math.MaxInt, PackedLen(math.MaxInt, 8), "no overflow on the way")
}

// Codes of every width come back, in whatever number.
func TestPackRoundTrips(t *testing.T) {
	for bits := 1; bits <= 8; bits++ {
		for n := range 70 {
			codes := make([]uint8, n)
			for i := range codes {
				codes[i] = uint8(i*7 + n)
			}
			packed := make([]byte, PackedLen(n, bits))
			Pack(packed, codes, bits)
			back := make([]uint8, n)
			Unpack(back, packed, bits)
			for i, c := range codes {
				require.Equal(t, c&(1<<bits-1), back[i], "code %d of %d, %d bits", i, n, bits)
			}
		}
	}
}

// Every code of every width, at every place that it can have within its bytes, beside
// neighbours of all ones and of zeros.
func TestPackKeepsEveryCode(t *testing.T) {
	for bits := 1; bits <= 8; bits++ {
		for code := range 1 << bits {
			for at := range 8 {
				for _, other := range []uint8{0, 0xff} {
					codes := []uint8{other, other, other, other, other, other, other, other, other}
					codes[at] = uint8(code)
					packed, back := make([]byte, PackedLen(9, bits)), make([]uint8, 9)
					Pack(packed, codes, bits)
					Unpack(back, packed, bits)
					for i, c := range codes {
						require.Equal(t, c&(1<<bits-1), back[i])
					}
				}
			}
		}
	}
}

// The layout is the devices' one: the first code in the lowest bits, zeros after the last.
func TestPackLayout(t *testing.T) {
	for _, c := range []struct {
		bits  int
		codes []uint8
		want  []byte
	}{
		{4, []uint8{1, 2, 3}, []byte{0x21, 0x03}},
		{2, []uint8{3, 0, 1, 2, 3}, []byte{0b10_01_00_11, 3}},
		{3, []uint8{1, 2, 7}, []byte{0b11_010_001, 1}},
		{1, []uint8{1, 0, 0, 1}, []byte{9}},
		{8, []uint8{255, 1}, []byte{255, 1}},
	} {
		packed := []byte{0xff, 0xff}[:len(c.want)]
		Pack(packed, c.codes, c.bits)
		require.Equal(t, c.want, packed, "%d bits", c.bits)
	}
}

// The bytes of codes are those that Pack makes of the codes that a row reads as.
func TestEncodePacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		for _, bits := range []int{2, 3, 4, 8} {
			a := Affine{Bits: bits}
			packed, words := make([]byte, a.Bytes(len(x))), make([]uint32, 1)
			require.True(t, a.Encode(packed, words, x, false))
			codes, back := make([]uint8, len(x)), make([]float32, len(x))
			Unpack(codes, packed, bits)
			a.Decode(back, packed, words)
			for i, c := range codes {
				require.Equal(t, Word(words[0]).Value(c, bits), back[i])
			}
			again := make([]byte, len(packed))
			Pack(again, codes, bits)
			require.Equal(t, packed, again)
		}
	})
}
