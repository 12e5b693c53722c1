package runner

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
)

// part is a tensor of a file as it is stored.
type part struct {
	name, kind string
	shape      []int
	data       []byte
}

// craftParts is a safetensors file.
func craftParts(parts ...part) []byte {
	header, data := map[string]any{}, []byte{}
	for _, p := range parts {
		begin := len(data)
		data = append(data, p.data...)
		header[p.name] = map[string]any{"dtype": p.kind, "shape": p.shape, "data_offsets": []int{begin, len(data)}}
	}
	text, _ := json.Marshal(header)
	return withHeader(string(text), data)
}

// crafted is an archive of parts, with the scales of those that have them.
func crafted(block [2]int, parts ...part) *archive {
	a := parseSafetensors(file{"m", craftParts(parts...)})
	a.apart(block)
	return a
}

func words(values ...float32) []byte { return encode("F32", values) }

// counting is n bytes, none of which is E4M3's NaN.
func counting(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		if data[i] = byte(i * 37); data[i]&0x7f == 0x7f {
			data[i]--
		}
	}
	return data
}

// e4m3 is the number that a code of 8 bits stands for: a sign, four bits of exponent, and three of what follows the point.
func e4m3(code byte) float32 {
	exponent, mantissa := int(code>>3&15), float64(code&7)/8
	v := math.Ldexp(1+mantissa, exponent-7)
	if exponent == 0 {
		v = math.Ldexp(mantissa, -6)
	}
	return float32(math.Copysign(v, float64(127-int(code))))
}

// Activations have 24 bits in products with codes of a model that fits into a cache, and 8 in a larger one.
func TestSmallModelsAreFine(t *testing.T) {
	const cols = 256
	data, x := make([]byte, 8*cols/32*34), make([]float32, cols)
	for i := range data {
		if data[i] = byte(i); i%34 < 2 {
			data[i] = 0x2c
		}
	}
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	for size, fine := range map[int]bool{cacheSize: true, cacheSize + 1: false} {
		a := &archive{reader: &reader{file: file{name: "m"}}, files: [][]byte{make([]byte, size)}}
		m := a.matrix(tensor{name: "w", encoding: "Q8_0", shape: []int{8, cols}, data: data}, 8, cols)
		q8 := ggml.Types[8]
		other := product.PackCodes(product.Codes{Name: q8.Name, Block: q8.Block, Bytes: q8.Bytes, Decode: q8.Decode, Fine: fine}, 8, cols, data)
		got, want := make([]float32, 8), make([]float32, 8)
		m.Mul(got, x, 1, false, 0, m.Units(1))
		other.Mul(want, x, 1, false, 0, other.Units(1))
		require.Equal(t, want, got, "%d bytes", size)
		require.Equal(t, other.Nanoseconds(9), m.Nanoseconds(9))
	}
}

// Experts in MXFP4 have their formula's bits, whatever the exponent, and take the memory that they have in the file.
func TestExpertsInMXFP4(t *testing.T) {
	const count, rows, cols = 2, 3, 64
	codes, exponents := counting(count*rows*cols/2), []byte{0, 1, 2, 127, 128, 120, 130, 60, 200, 251, 126, 127}
	a := crafted([2]int{}, part{"x_blocks", "U8", []int{count, rows, cols / 32, 16}, codes}, part{"x_scales", "U8", []int{count, rows, cols / 32}, exponents},
		part{"x_bias", "F32", []int{count, rows}, words(1, 2, 3, 4, 5, 6)})
	all := (&loader{archive: a}).stacked("x", &experts{Count: count, Coded: true, Bias: true}, rows, cols)
	require.Len(t, all, count)
	for e, m := range all {
		require.Equal(t, []float32{float32(3*e + 1), float32(3*e + 2), float32(3*e + 3)}, m.Bias)
		require.Equal(t, rows*cols/2, m.Bytes(), "codes alone")
		for r := range rows {
			row := make([]float32, cols)
			m.Row(row, r)
			for i, v := range row {
				at := (e*rows+r)*cols + i
				code := codes[at/2] >> (at % 2 * 4) & 15 // the lower half of a byte first
				magnitude := []float64{0, .5, 1, 1.5, 2, 3, 4, 6}[code&7]
				want := float32(math.Copysign(math.Ldexp(magnitude, int(exponents[at/32])-127), float64(7-int(code))))
				require.Equal(t, math.Float32bits(want), math.Float32bits(v), "expert %d, row %d, column %d", e, r, i)
			}
		}
	}
}

// Matrices in F8_E4M3 have their formula's bits, with scales of blocks that rows and columns are no multiples of, or one of all.
func TestMatricesInFloat8(t *testing.T) {
	for _, c := range []struct{ rows, cols, rowsOf, colsOf int }{{5, 7, 2, 3}, {6, 48, 4, 16}, {4, 40, 128, 128}, {3, 600, 1, 256}, {130, 8, 128, 4}, {3, 10, 0, 0}, {1, 1, 0, 0}} {
		codes, shape, perRow := counting(c.rows*c.cols), []int{1}, 1
		if c.rowsOf > 0 {
			perRow = (c.cols + c.colsOf - 1) / c.colsOf
			shape = []int{(c.rows + c.rowsOf - 1) / c.rowsOf, perRow}
		}
		n, _ := backend.Mul(shape...)
		scales := make([]float32, n)
		for i := range scales {
			scales[i] = 0.0007 * float32(i+1)
		}
		a := crafted([2]int{c.rowsOf, c.colsOf}, part{"x.weight", "F8_E4M3", []int{c.rows, c.cols}, codes}, part{"x.weight_scale_inv", "F32", shape, words(scales...)})
		m := (&loader{archive: a}).matrix("x", c.rows, c.cols, false)
		require.Equal(t, c.rows*c.cols, m.Bytes(), "codes alone")
		dense, row := a.dense("x.weight", c.rows, c.cols), make([]float32, c.cols)
		for r := range c.rows {
			m.Row(row, r)
			require.Equal(t, dense.data[r*c.cols:][:c.cols], row)
			for i, v := range row {
				scale := scales[0]
				if c.rowsOf > 0 {
					scale = scales[r/c.rowsOf*perRow+i/c.colsOf]
				}
				require.Equal(t, e4m3(codes[r*c.cols+i])*scale, v, "%+v, row %d, column %d", c, r, i)
			}
		}
	}
}

// Scales that are missing, of another shape or no numbers are errors of the file, and what is not read is refused.
func TestScalesAreChecked(t *testing.T) {
	blocks, scales := part{"x_blocks", "U8", []int{1, 2, 1, 16}, counting(32)}, part{"x_scales", "U8", []int{1, 2, 1}, []byte{127, 127}}
	weight, factors := part{"x.weight", "F8_E4M3", []int{2, 4}, counting(8)}, part{"x.weight_scale_inv", "F32", []int{1, 2}, words(1, 2)}
	with := func(p part, change func(p *part)) part {
		change(&p)
		return p
	}
	bad := func(field, why string, block [2]int, parts ...part) {
		t.Helper()
		err := failed(func() {
			a := crafted(block, parts...)
			if _, there := a.tensors["x.weight"]; there && parts[0].kind == "F8_E4M3" {
				(&loader{archive: a}).matrix("x", 2, 4, false)
				return
			}
			(&loader{archive: a}).stacked("x", &experts{Count: 1}, 2, 32)
		})
		refused(t, err, "m", "tensor "+field, "", why)
		require.ErrorContains(t, err, why)
	}
	two := [2]int{2, 2}
	require.NoError(t, failed(func() { crafted(two, weight, factors) }))
	require.NoError(t, failed(func() { crafted(two, blocks, scales) }))
	bad("x_scales", "is missing", two, blocks)
	bad("x_scales", "not of U8", two, blocks, with(scales, func(p *part) { p.kind, p.shape, p.data = "F32", []int{1, 2, 1}, words(1, 1) }))
	bad("x_scales", "and that of x_blocks is [1 2 1 16]", two, blocks, with(scales, func(p *part) { p.shape = []int{2, 1} }))
	bad("x_scales", "and then 16", two, with(blocks, func(p *part) { p.shape = []int{1, 2, 2, 8} }), with(scales, func(p *part) { p.shape, p.data = []int{1, 2, 2}, make([]byte, 4) }))
	bad("x_scales", "has shape []", two, with(blocks, func(p *part) { p.shape, p.data = nil, []byte{0} }), with(scales, func(p *part) { p.shape, p.data = nil, []byte{0} }))
	bad("x.weight", "is there beside x_blocks", two, blocks, scales, part{"x.weight", "F32", []int{1}, words(1)})
	bad("x.weight", "element 32 is", two, blocks, with(scales, func(p *part) { p.data = []byte{127, 255} }))
	bad("x.weight", "needs [1 2 32]", two, with(blocks, func(p *part) { p.shape = []int{2, 1, 1, 16} }), with(scales, func(p *part) { p.shape = []int{2, 1, 1} }))
	bad("x.weight_scale_inv", "has shape [1 2], need [2 2]", [2]int{1, 2}, weight, factors)
	bad("x.weight_scale_inv", "has shape [1 2], need []", [2]int{}, weight, factors)
	bad("x.weight_scale_inv", "element 1 is NaN", two, weight, with(factors, func(p *part) { p.data = words(1, float32(math.NaN())) }))
	bad("x.weight", "element 3 is NaN", two, with(weight, func(p *part) { p.data = []byte{1, 2, 3, 0xff, 5, 6, 7, 8} }), factors)
	bad("x.weight", "element 6 is +Inf", two, with(weight, func(p *part) { p.data = []byte{1, 2, 3, 4, 5, 6, 0x7e, 8} }), with(factors, func(p *part) { p.data = words(1, 1e38) }))

	long := with(weight, func(p *part) { p.shape = []int{1, 2, 4} })
	unsupported(t, failed(func() { crafted(two, long, factors) }), "m", "tensor type F8_E4M3 of shape [1 2 4] (x.weight)")
	unsupported(t, failed(func() { crafted(two, weight).judged(nil) }), "m", "tensor type F8_E4M3 (1 of 1 tensors)")
	unsupported(t, failed(func() { crafted(two, scales).judged(nil) }), "m", "tensor type U8 (1 of 1 tensors)")
	unsupported(t, failed(func() { crafted(two, scales).dense("x_scales", 1, 2, 1) }), "m", "tensor type U8 (of x_scales)")
}

// Reading codes and their scales reserves no more than the file has, whatever its header claims.
func TestScalesTakeLittleMemory(t *testing.T) {
	for _, parts := range map[string][]part{
		"wide":   {{"x.weight", "F8_E4M3", []int{1, 1 << 16}, counting(1 << 16)}, {"x.weight_scale_inv", "F32", []int{1, 1 << 16}, make([]byte, 4<<16)}},
		"empty":  {{"x.weight", "F8_E4M3", []int{0, 1 << 40}, nil}, {"x.weight_scale_inv", "F32", []int{0, 1 << 40}, nil}},
		"blocks": {{"x_blocks", "U8", []int{0, 1 << 30, 1 << 30, 16}, nil}, {"x_scales", "U8", []int{0, 1 << 30, 1 << 30}, nil}},
	} {
		size := 256
		for _, p := range parts {
			size += len(p.data)
		}
		bounded(t, size, func() {
			typed(t, failed(func() { crafted([2]int{1, 1}, parts...).judged(nil) }))
		})
	}
}

// Scales are no parameters: a matrix has as many as it has elements.
func TestScalesAreNotCounted(t *testing.T) {
	a := crafted([2]int{2, 2}, part{"x.weight", "F8_E4M3", []int{4, 4}, counting(16)}, part{"x.weight_scale_inv", "F32", []int{2, 2}, words(1, 2, 3, 4)}, part{"y.weight", "F32", []int{2}, words(1, 2)})
	types, parameters := a.count()
	require.Equal(t, map[string]int{"F8_E4M3": 1, "F32": 1}, types)
	require.Equal(t, 18, parameters)
}
