package llama

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"gonum.org/v1/gonum/blas/blas32"
)

// archive is the tensors of a file by name, not decoded yet. Every file format
// is read into one, so that weights are checked and decoded in one place.
type archive struct {
	file
	tensors map[string]tensor
	spans   []span
}

// tensor is an array of a file as it is stored.
type tensor struct {
	encoding string // a key of encodings; others can be listed but not decoded
	shape    []int  // the last dimension is contiguous
	data     []byte
}

// span is the part of the file that a tensor fills.
type span struct {
	name       string
	begin, end int
}

// encoding stores elements in groups of so many bytes.
type encoding struct {
	group, bytes int
	decode       func(dst []float32, src []byte)
}

var encodings = map[string]encoding{
	"F32": {1, 4, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}},
	"F16": {1, 2, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = quant.FromF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}},
	"BF16": {1, 2, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = quant.FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}},
	"Q8_0": {32, 34, func(dst []float32, src []byte) { // an f16 scale and 32 signed bytes
		for ; len(dst) > 0; dst, src = dst[32:], src[34:] {
			scale := quant.FromF16(binary.LittleEndian.Uint16(src))
			for i := range 32 {
				dst[i] = scale * float32(int8(src[2+i]))
			}
		}
	}},
}

// add lists a tensor that begins at a byte of the file. Its size follows from
// shape and encoding; a tensor that cannot be decoded is only remembered by name.
func (a *archive) add(name, kind string, shape []int, begin int) error {
	field := "tensor " + name
	if _, twice := a.tensors[name]; twice {
		return a.bad(field, "is there twice")
	}
	t := tensor{encoding: kind, shape: shape}
	if e, known := encodings[kind]; known {
		n, ok := backend.Mul(shape...)
		if !ok || len(shape) > 0 && shape[len(shape)-1]%e.group != 0 || len(shape) == 0 && e.group > 1 {
			return a.bad(field, "shape %v is negative, overflows, or has rows that are no multiple of %d", shape, e.group)
		}
		size, ok := backend.Mul(n/e.group, e.bytes)
		if begin < 0 || begin > len(a.data) || !ok || size > len(a.data)-begin {
			return a.bad(field, "shape %v of %s at byte %d does not fit the file of %d bytes", shape, kind, begin, len(a.data))
		}
		t.data = a.data[begin : begin+size]
		a.spans = append(a.spans, span{name, begin, begin + size})
	}
	if a.tensors == nil {
		a.tensors = map[string]tensor{}
	}
	a.tensors[name] = t
	return nil
}

// disjoint is an error if two tensors share a byte: a file may not be made to
// expand by naming the same bytes many times.
func (a *archive) disjoint() error {
	sort.Slice(a.spans, func(i, j int) bool { return a.spans[i].begin < a.spans[j].begin })
	for i := 1; i < len(a.spans); i++ {
		if before, s := a.spans[i-1], a.spans[i]; s.begin < before.end {
			return a.bad("tensor "+s.name, "begins at byte %d, inside of tensor %s", s.begin, before.name)
		}
	}
	return nil
}

// floats decodes a tensor that must have the given shape.
func (a *archive) floats(name string, shape ...int) ([]float32, error) {
	field := "tensor " + name
	t, ok := a.tensors[name]
	if !ok {
		return nil, a.bad(field, "is missing")
	}
	if !slices.Equal(t.shape, shape) {
		return nil, a.bad(field, "has shape %v, the model's configuration needs %v", t.shape, shape)
	}
	e, ok := encodings[t.encoding]
	if !ok {
		return nil, a.unsupported("tensor type %s (of %s)", t.encoding, name)
	}
	out := make([]float32, len(t.data)/e.bytes*e.group)
	e.decode(out, t.data)
	for i, v := range out {
		if v-v != 0 { // infinite or not a number
			return nil, a.bad(field, "element %d is %v", i, v)
		}
	}
	return out, nil
}

// matrix decodes a weight of rows outputs and cols inputs.
func (a *archive) matrix(name string, rows, cols int) (blas32.General, error) {
	data, err := a.floats(name, rows, cols)
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: data}, err
}
