package runner

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
)

// archive is the tensors of a file by name, not decoded yet. Every file format
// is read into one, so that weights are checked and decoded in one place.
type archive struct {
	*reader
	tensors map[string]tensor
	files   [][]byte // whose parts the tensors are
	names   *strings.Replacer
	gguf    bool
	found   map[string]bool // the tensors that find has returned
	header  bool            // no tensor is decoded

	progress func(done, total int) // receives bytes of tensors; nil: nobody asks
	done     int
}

// huggingFace leaves names as they are: in most files weights have the names of Hugging Face's Llama.
var huggingFace = strings.NewReplacer()

func newArchive(f file) *archive {
	f.complete()
	return &archive{reader: &reader{file: f}, tensors: map[string]tensor{}, files: [][]byte{f.data}, names: huggingFace, found: map[string]bool{}}
}

// tensor is an array of a file as it is stored.
type tensor struct {
	name     string
	encoding string // a key of encodings; others can be listed but not decoded
	shape    []int  // the last dimension is contiguous
	begin    int    // where data is in the file
	data     []byte // nil for an encoding that cannot be decoded
	// scale is what the decoded element of a row and a column is multiplied by, and run the columns of a row, from one of its multiples
	// on, that have the same: see apart. nil: scales are within data, or there are none.
	scale func(row, col int) float32
	run   int
}

// part is the matrix of n rows from the first on, of a tensor that has them.
func (t tensor) part(first, n int) tensor {
	last := len(t.shape) - 1
	all, _ := backend.Mul(t.shape[:last]...)
	out, row := t, len(t.data)/all
	out.shape, out.data = []int{n, t.shape[last]}, t.data[first*row:(first+n)*row]
	if t.scale != nil {
		out.scale = func(row, col int) float32 { return t.scale(first+row, col) }
	}
	return out
}

// known reports whether a tensor can be decoded.
func (t *tensor) known() bool {
	return encodings[t.encoding].decode != nil && (t.encoding != float8 || t.scale != nil)
}

// size is how many bytes t has, unless its encoding is not known, its shape overflows, or its rows are no whole groups.
func (t tensor) size() (bytes int, ok bool) {
	e := encodings[t.encoding]
	n, fits := backend.Mul(t.shape...)
	if e.group == 0 || !fits || n%e.group != 0 || len(t.shape) > 0 && t.shape[len(t.shape)-1]%e.group != 0 {
		return 0, false
	}
	if bytes, fits = backend.Mul(n/e.group, e.bytes); !fits {
		bytes = math.MaxInt // which no file has
	}
	return bytes, true
}

// encoding stores groups of elements, each in a number of bytes.
type encoding struct {
	group, bytes int
	dtype        backend.DType                   // that has the same elements
	decode       func(dst []float32, src []byte) // one group
}

// encodings is those that are decoded, which all are GGUF's, and some of them of safetensors as well.
var encodings = func() map[string]encoding {
	same := map[string]backend.DType{"F32": backend.F32, "F16": backend.F16, "BF16": backend.BF16}
	all := map[string]encoding{}
	for _, t := range ggml.Types {
		if t.Decode != nil {
			all[t.Name] = encoding{t.Block, t.Bytes, cmp.Or(same[t.Name], backend.F32), t.Decode}
		}
	}
	maps.Copy(all, encodingsApart)
	return all
}()

// matrix is a tensor [rows, cols] as the runner multiplies by it.
func (a *archive) matrix(t tensor, rows, cols int) *product.Matrix {
	a.need(slices.Equal(t.shape, []int{rows, cols}), "tensor "+t.name, "has shape %v, the model's configuration needs %v", t.shape, []int{rows, cols})
	if a.header {
		return nil
	}
	e := encodings[t.encoding]
	a.support(t.known(), "tensor type %s (of %s)", t.encoding, t.name)
	var m *product.Matrix
	if _, number := exponents[t.encoding]; number && t.scale == nil {
		m = product.PackBytes(e.dtype, rows, cols, t.data, func(panels int, f func(from, to int)) { a.share(len(t.data), panels, f) })
	} else {
		block := max(e.group, t.run)
		codes := product.Codes{Name: t.encoding, Block: block, Bytes: block / e.group * e.bytes, Decode: e.decode, Scale: t.scale, Fine: a.size() <= cacheSize}
		m = product.PackCodes(codes, rows, cols, t.data)
	}
	a.allFinite(t, m)
	a.ready(t)
	return m
}

// ready reports the bytes of a tensor as done.
func (a *archive) ready(t tensor) {
	if a.done += len(t.data); a.progress != nil {
		a.progress(a.done, max(a.done, a.size()))
	}
}

// size is how many bytes the files have.
func (a *archive) size() (n int) {
	for _, data := range a.files {
		n += len(data)
	}
	return n
}

// finite gives the file up for an element of a tensor that is infinite or not a number, decoded.
func (a *archive) finite(t tensor, values []float32) {
	if i := slices.IndexFunc(values, infinite); i >= 0 {
		a.need(false, "tensor "+t.name, "element %d is %v", i, values[i])
	}
}

var le = binary.LittleEndian

// add lists a tensor without its data, whose size follows from shape and encoding. One that cannot be decoded has none.
func (a *archive) add(t tensor) {
	field := "tensor " + t.name
	_, twice := a.tensors[t.name]
	a.need(!twice, field, "is there twice")
	if e, known := encodings[t.encoding]; known {
		size, whole := t.size()
		a.need(whole, field, "shape %v is negative, overflows, or has rows that are no multiple of %d", t.shape, e.group)
		a.need(t.begin >= 0 && t.begin <= len(a.data) && size <= len(a.data)-t.begin, field,
			"shape %v of %s at byte %d does not fit the file of %d bytes", t.shape, t.encoding, t.begin, len(a.data))
		t.data = a.data[t.begin : t.begin+size]
	}
	a.tensors[t.name] = t
}

// join adds the tensors of another file.
func (a *archive) join(b *archive) {
	a.files = append(a.files, b.data)
	for name, t := range b.tensors {
		_, twice := a.tensors[name]
		a.need(!twice, "tensor "+name, "is in two files")
		a.tensors[name] = t
	}
}

// disjoint fails if two tensors share a byte: a file may not be made to expand by naming the same bytes many times.
func (a *archive) disjoint() {
	var before tensor
	for _, t := range slices.SortedFunc(maps.Values(a.tensors), func(s, t tensor) int {
		return cmp.Or(s.begin-t.begin, len(s.data)-len(t.data))
	}) {
		inside := t.begin < before.begin+len(before.data)
		a.need(!inside, "tensor "+t.name, "begins at byte %d, inside of tensor %s", t.begin, before.name)
		before = t
	}
}

// dense is a tensor, decoded.
type dense struct {
	shape []int
	data  []float32
	dtype backend.DType // that has the same elements
}

// dense decodes a tensor that must have the given shape.
func (a *archive) dense(name string, shape ...int) dense {
	t := a.find(name, shape...)
	if a.header {
		return dense{shape: shape}
	}
	return a.decoded(t)
}

// find is a tensor of a name of Hugging Face's Llama, which must have the given shape.
func (a *archive) find(name string, shape ...int) tensor {
	name = a.names.Replace(name)
	t, there := a.tensors[name]
	a.need(there, "tensor "+name, "is missing")
	a.need(slices.Equal(t.shape, shape), "tensor "+name, "has shape %v, the model's configuration needs %v", t.shape, shape)
	a.found[name] = true
	return t
}

// cut makes the parts of a tensor, rows one after another, tensors of their own, if it is there.
func (a *archive) cut(name string, cols int, parts ...rows) {
	n := 0
	for _, p := range parts {
		n += p.n
	}
	if _, there := a.tensors[a.names.Replace(name)]; !there {
		return
	}
	whole, at := a.find(name, n, cols), 0
	for _, p := range parts {
		one := whole.part(at, p.n)
		one.name = a.names.Replace(p.name)
		a.tensors[one.name], at = one, at+p.n
	}
}

// rows is a number of rows that belong to a tensor.
type rows struct {
	name string
	n    int
}

// decoded is a tensor that is there.
func (a *archive) decoded(t tensor) dense {
	e := encodings[t.encoding]
	if !t.known() {
		a.refuse(fmt.Sprintf("tensor type %s (of %s)", t.encoding, t.name), a.reads())
	}
	out := dense{shape: t.shape, dtype: e.dtype, data: make([]float32, len(t.data)/e.bytes*e.group)}
	for i := 0; i < len(out.data); i += e.group {
		group := t.data[i/e.group*e.bytes:][:e.bytes]
		e.decode(out.data[i:i+e.group], group)
	}
	if t.scale != nil {
		cols := t.shape[len(t.shape)-1]
		for i := range out.data {
			out.data[i] *= t.scale(i/cols, i%cols)
		}
	}
	a.finite(t, out.data)
	a.ready(t)
	return out
}
