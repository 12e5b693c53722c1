package product

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

var le = binary.LittleEndian

// ggmlTypes is all of ggml that are decoded, in a fixed order, and after them fine ones of those that a kernel multiplies in integers.
var ggmlTypes = func() (all []Codes) {
	for number := range uint32(256) {
		if t := ggml.Types[number]; t.Decode != nil {
			all = append(all, Codes{Name: t.Name, Block: t.Block, Bytes: t.Bytes, Decode: t.Decode})
		}
	}
	for _, t := range all {
		if t.Fine = available[0].formats[t.Name].row != nil; t.Fine {
			all = append(all, t)
		}
	}
	return all
}()

func typeOf(name string) Codes {
	return ggmlTypes[slices.IndexFunc(ggmlTypes, func(t Codes) bool { return t.Name == name })]
}

// stored is n random weights, all of them finite.
func stored(rng *rand.Rand, t Codes, n int) []byte {
	data := make([]byte, n/t.Block*t.Bytes)
	for i := range data {
		data[i] = byte(rng.UintN(256))
	}
	for b := range slices.Chunk(data, t.Bytes) {
		switch v := float32(rng.NormFloat64()); t.Name {
		case "F32":
			le.PutUint32(b, math.Float32bits(v))
		case "F16":
			le.PutUint16(b, quant.F16(v))
		case "BF16":
			le.PutUint16(b, quant.BF16(v))
		case "MXFP4":
			b[0] = byte(120 + rng.UintN(8))
		}
		for _, at := range ggml.Scales[t.Name] {
			le.PutUint16(b[at:], quant.F16(float32(rng.NormFloat64())/64))
		}
	}
	return data
}

// cols is a number of columns that a type can have, about n.
func cols(t Codes, n int) int { return max(n/t.Block, 1) * t.Block }

// matrix is random weights.
func matrix(rng *rand.Rand, k *kernel, t Codes, rows, cols int) *Matrix {
	return packCodes(k, t, rows, cols, stored(rng, t, rows*cols))
}

// checkCodes holds a product of all units, in that many parts, against float64 and the definition of the type. What is maxWidth
// operands is NaN, and so is out, where it does not count.
func checkCodes(t require.TestingT, m *Matrix, rng *rand.Rand, n, parts int, add bool) {
	_, x := poisoned(n*m.Cols + 1)
	x = x[1:] // no vector begins at a multiple of its size
	copy(x, randoms(rng, len(x)))
	all, out := poisoned(n * m.Rows)
	if add {
		copy(out, randoms(rng, len(out)))
	}
	before, units := slices.Clone(out), m.Units(n)
	for _, i := range rng.Perm(parts) {
		m.Mul(out, x, n, add, i*units/parts, (i+1)*units/parts)
	}
	w, row := make([]float32, m.Cols), make([]float32, m.Cols)
	for r := range m.Rows {
		for i := 0; i < m.Cols; i += m.codes.Block {
			m.codes.Decode(w[i:i+m.codes.Block], m.data[r*m.codes.bytes(m.Cols)+m.codes.bytes(i):][:m.codes.Bytes])
		}
		m.Row(row, r)
		require.Equal(t, w, row, "%s, %s: row %d", m.kernel.name, m.codes.Name, r)
		for i := range n {
			sum, size := 0.0, 0.0
			if add {
				sum = float64(before[i*m.Rows+r])
				size = math.Abs(sum)
			}
			for j, v := range w {
				p := float64(v) * float64(x[i*m.Cols+j])
				sum, size = sum+p, size+math.Abs(p)
			}
			require.InDelta(t, sum, out[i*m.Rows+r], size*float64(m.Cols/m.kernel.lanes+8)*0x1p-24+rounding(m, w, x[i*m.Cols:])+1e-30, "%s, %s, %dx%d, row %d of %d, weights %d",
				m.kernel.name, m.codes.Name, m.Rows, m.Cols, i, n, r)
		}
	}
	for i, v := range all {
		if i < maxWidth || i >= maxWidth+len(out) {
			require.NotEqual(t, v, v, "%s wrote outside, at %d", m.kernel.name, i-maxWidth)
		}
	}
}

// rounding is how far integers of 8 or 24 bits in the place of x may be off, times weights w, where m's kernel rounds x.
func rounding(m *Matrix, w, x []float32) (sum float64) {
	if m.format.row == nil {
		return 0
	}
	for i := 0; i < len(w); i += m.codes.Block {
		largest, weights := 0.0, 0.0
		for j := i; j < i+m.codes.Block; j++ {
			largest, weights = max(largest, math.Abs(float64(x[j]))), weights+math.Abs(float64(w[j]))
		}
		sum += largest / (2 * full) * weights
	}
	if m.codes.Fine {
		return sum / (2 * full) / (2 * full) * 1.01
	}
	return sum
}

// Every kernel and type, at both sides of all sizes that work is cut at.
func TestCodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range available {
		for _, typ := range ggmlTypes {
			for _, rows := range []int{1, 2, 3, 4, 5, 7, unit - 1, unit, unit + 1} {
				m := matrix(rng, k, typ, rows, cols(typ, 75))
				for _, n := range []int{1, 2, 3, 5, 6, 7, 10, few - 1, few, few + 1} {
					checkCodes(t, m, rng, n, 1, n%2 == 0)
				}
			}
			for _, size := range [][3]int{{7, columns - 1, 4}, {6, columns, 1}, {9, columns + 1, 5}, {4, 2*columns + 3, 1}, {5, 2*columns + 3, 2}, {3, 1, 1},
				{3, 5, many + 1}, {17, 8, 2*many - 1}, {9, 16, many}, {4, 32, 1}, {4, 33, 1}, {12, 224, 1}} {
				m := matrix(rng, k, typ, size[0], cols(typ, size[1]))
				checkCodes(t, m, rng, size[2], 1, false)
				checkCodes(t, m, rng, size[2], 3, true)
			}
		}
	}
}

func TestCodesRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, typ := rapid.SampledFrom(available).Draw(t, "kernel"), rapid.SampledFrom(ggmlTypes).Draw(t, "type")
		rows, width, n := rapid.IntRange(1, 40).Draw(t, "rows"), rapid.IntRange(1, 600).Draw(t, "cols"), rapid.IntRange(0, 20).Draw(t, "n")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		m := matrix(rng, k, typ, rows, cols(typ, width))
		checkCodes(t, m, rng, n, rapid.IntRange(1, 5).Draw(t, "parts"), rapid.Bool().Draw(t, "add"))
	})
}

// A row has the same bits alone and among others, and on however many goroutines.
func TestRowsOfCodesAreIndependent(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, k := range available {
		for _, typ := range ggmlTypes {
			const n = many + 9
			m := matrix(rng, k, typ, 27, cols(typ, columns+typ.Block+5))
			x, all, one := randoms(rng, n*m.Cols), make([]float32, n*m.Rows), make([]float32, m.Rows)
			var parts sync.WaitGroup
			for i := range m.Units(n) {
				parts.Go(func() { m.Mul(all, x, n, false, i, i+1) })
			}
			parts.Wait()
			for i := range n {
				m.Mul(one, x[i*m.Cols:], 1, false, 0, m.Units(1))
				require.Equal(t, one, all[i*m.Rows:(i+1)*m.Rows], "%s, %s: row %d", k.name, typ.Name, i)
			}
		}
	}
}

// Weights of every type give the bits of the same weights as F32, on each kernel that has no integers for it.
func TestCodesGiveTheBitsOfF32(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, k := range available {
		for _, typ := range ggmlTypes[1:] {
			for _, size := range [][3]int{{7, 1, 1}, {30, 31, 1}, {20, 32, 7}, {26, 33, 1}, {8, 1024, 1}, {8, 1024, 3}} {
				rows, n := size[0], size[2]
				m := matrix(rng, k, typ, rows, cols(typ, size[1]))
				if m.format.row != nil {
					continue
				}
				exact := make([]byte, 0, 4*rows*m.Cols)
				for r := range rows {
					row := make([]float32, m.Cols)
					m.Row(row, r)
					exact, _ = binary.Append(exact, le, row)
				}
				x, want := randoms(rng, n*m.Cols), randoms(rng, n*rows)
				got := slices.Clone(want)
				packCodes(k, typeOf("F32"), rows, m.Cols, exact).Mul(want, x, n, true, 0, m.Units(n))
				m.Mul(got, x, n, true, 0, m.Units(n))
				require.Equal(t, want, got, "%s, %s, %v", k.name, typ.Name, size)
			}
		}
	}
}

// Infinities and NaN come out where they belong, and nowhere else.
func TestCodesNotFinite(t *testing.T) {
	const n = 8
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	rng := rand.New(rand.NewPCG(7, 1))
	for _, k := range available {
		for _, typ := range ggmlTypes {
			m := matrix(rng, k, typ, 13, cols(typ, 67))
			at := m.codes.bytes(m.Cols)
			broken := typ.Name == "F32" || typ.Name == "F16" || typ.Name == "BF16"
			switch typ.Name {
			case "F32":
				le.PutUint32(m.data[6*at-4:], math.Float32bits(inf))
				le.PutUint32(m.data[12*at:], math.Float32bits(nan))
			case "F16":
				le.PutUint16(m.data[6*at-2:], quant.F16(inf))
				le.PutUint16(m.data[12*at:], quant.F16(nan))
			case "BF16":
				le.PutUint16(m.data[6*at-2:], quant.BF16(inf))
				le.PutUint16(m.data[12*at:], quant.BF16(nan))
			}
			x, out := randoms(rng, n*m.Cols), make([]float32, n*m.Rows)
			x[2*m.Cols+1], x[6*m.Cols], x[m.Cols-1] = nan, -inf, 2
			m.Mul(out, x, n, false, 0, m.Units(n))
			for i := range n {
				for r := range m.Rows {
					v := float64(out[i*m.Rows+r])
					switch {
					case i == 2 || broken && r == 12:
						require.True(t, math.IsNaN(v), "%s, %s: %d, %d", k.name, typ.Name, i, r)
					case i == 6:
						require.False(t, v-v == 0, "%s, %s: %d, %d", k.name, typ.Name, i, r)
					case broken && r == 5:
						require.True(t, math.IsInf(v, 0), "%s, %s: %d, %d", k.name, typ.Name, i, r)
					default:
						require.Zero(t, v-v, "%s, %s: %d, %d is %v", k.name, typ.Name, i, r, v)
					}
				}
			}
		}
	}
}

// What an earlier product left in a room, such as NaN, is not read.
func TestRoomsAreNotRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	for _, k := range available {
		for _, typ := range ggmlTypes {
			for _, n := range []int{1, few, many + 1} {
				m := matrix(rng, k, typ, unit+3, cols(typ, 333))
				x, want, got := randoms(rng, n*m.Cols), make([]float32, n*m.Rows), make([]float32, n*m.Rows)
				m.Mul(want, x, n, false, 0, m.Units(n))
				room, nan := new(codesRoom), float32(math.NaN())
				for _, all := range [][]float32{room.weights[:], room.sums[:], room.out[:], room.one[:]} {
					for i := range all {
						all[i] = nan
					}
				}
				room.x = slices.Repeat([]float32{nan}, many*2*pitch)
				room.rounded = bytes.Repeat([]byte{0xff}, 4*many*m.Cols)
				copy(room.words[:], bytes.Repeat([]byte{0xff}, len(room.words)))
				fresh := codesRooms.New
				codesRooms.New = func() any { return room }
				for codesRooms.Get() != any(room) { // until there is no other
				}
				m.Mul(got, x, n, false, 0, m.Units(n))
				codesRooms.New = fresh
				require.Equal(t, want, got, "%s, %s, %d rows", k.name, typ.Name, n)
			}
		}
	}
}

// Vectors of a room's arrays lie at multiples of their size.
func TestRoomIsAligned(t *testing.T) {
	var r codesRoom
	for _, at := range []uintptr{unsafe.Offsetof(r.weights), unsafe.Offsetof(r.words), unsafe.Offsetof(r.sums), unsafe.Offsetof(r.out)} {
		require.Zero(t, at%64)
	}
}

func TestCodesRefuseWhatDoesNotFit(t *testing.T) {
	f32 := typeOf("F32")
	m := PackCodes(f32, 20, 3, make([]byte, 240))
	for name, call := range map[string]func(){
		"bytes":  func() { PackCodes(f32, 20, 3, make([]byte, 241)) },
		"empty":  func() { PackCodes(f32, 0, 3, nil) },
		"blocks": func() { PackCodes(typeOf("Q8_0"), 1, 33, make([]byte, 34)) },
		"type":   func() { PackCodes(Codes{Block: 3, Bytes: 1}, 1, 3, make([]byte, 1)) },
		"input":  func() { m.Mul(make([]float32, 40), make([]float32, 5), 2, false, 0, m.Units(2)) },
		"output": func() { m.Mul(make([]float32, 39), make([]float32, 6), 2, false, 0, m.Units(2)) },
		"units":  func() { m.Mul(make([]float32, 40), make([]float32, 6), 2, false, 0, m.Units(2)+1) },
		"row":    func() { m.Row(make([]float32, 3), 20) },
	} {
		require.Panics(t, call, name)
	}
}

func TestCodesAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	rng := rand.New(rand.NewPCG(4, 1))
	for _, k := range available {
		for _, typ := range ggmlTypes {
			m := matrix(rng, k, typ, 9, cols(typ, 300))
			x, out := randoms(rng, 3*m.Cols), make([]float32, 3*m.Rows)
			for _, n := range []int{1, 3} {
				mul := func() { m.Mul(out, x, n, false, 0, m.Units(n)) }
				mul()
				require.Less(t, testing.AllocsPerRun(100, mul), 1., "%s, %s, %d", k.name, typ.Name, n)
			}
		}
	}
}
