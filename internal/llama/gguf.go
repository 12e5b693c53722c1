package llama

import (
	"fmt"
	"math"
)

// ggmlTypes names the tensor types of GGUF. Those that encodings lacks are named
// only in the error that refuses them.
var ggmlTypes = map[uint32]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
	10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
	24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 30: "BF16",
}

// Value types of GGUF's metadata.
const (
	ggufU8 = iota
	ggufI8
	ggufU16
	ggufI16
	ggufU32
	ggufI32
	ggufF32
	ggufBool
	ggufString
	ggufArray
	ggufU64
	ggufI64
	ggufF64
)

// ggufSizes is the bytes of a value, at least: a string is more than its length.
var ggufSizes = [...]int{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}

// ggufNumbers is an array of numbers, a part of the file.
type ggufNumbers struct {
	kind uint32
	data []byte
}

// parseGGUF reads the header of a GGUF file of version 2 or 3, little-endian:
// metadata, and the place and shape of every tensor.
func parseGGUF(f file) (*metadata, *archive, error) {
	c := cursor{file: f}
	if string(c.bytes("magic", 4)) != "GGUF" {
		c.fail("magic", "is not that of a GGUF file")
	}
	if version := c.u32("version"); c.err == nil && version != 2 && version != 3 {
		c.err = f.unsupported("GGUF version %d", version)
	}
	tensors, keys := c.u64("tensor count"), c.u64("metadata count")
	meta := &metadata{file: f, values: map[string]any{}}
	for i := uint64(0); i < keys && c.err == nil; i++ {
		key := c.string("metadata key")
		value := c.value("metadata "+key, c.u32("metadata "+key))
		if _, twice := meta.values[key]; twice {
			c.fail("metadata "+key, "is there twice")
		}
		meta.values[key] = value
	}
	type description struct {
		name, kind string
		shape      []int
		offset     int // from where the data begin, which is known at the end
	}
	var list []description
	for i := uint64(0); i < tensors && c.err == nil; i++ {
		d := description{name: c.string("tensor name")}
		d.shape, d.kind, d.offset = c.tensor("tensor " + d.name)
		list = append(list, d)
	}
	align := meta.int("general.alignment", 32)
	if meta.err == nil && (align < 1 || align > 1<<20 || align&(align-1) != 0) {
		meta.fail("general.alignment", "have %d, need a power of two up to %d", align, 1<<20)
	}
	if err := firstOf(c.err, meta.err); err != nil {
		return nil, nil, err
	}
	start := (c.at + align - 1) &^ (align - 1)
	a := &archive{file: f}
	for _, d := range list {
		if d.offset%align != 0 {
			return nil, nil, f.bad("tensor "+d.name, "offset %d is no multiple of the alignment %d", d.offset, align)
		}
		if err := a.add(d.name, d.kind, d.shape, start+d.offset); err != nil {
			return nil, nil, err
		}
	}
	return meta, a, a.disjoint()
}

// value reads a metadata value: integers and booleans as int64 (uint64 beyond
// its range), floats as float64, strings, and arrays of strings or numbers.
func (c *cursor) value(field string, kind uint32) any {
	if kind >= uint32(len(ggufSizes)) {
		c.fail(field, "has unknown type %d", kind)
		return nil
	}
	switch kind {
	case ggufString:
		return c.string(field)
	case ggufArray:
		return c.array(field)
	}
	size := ggufSizes[kind]
	bits := c.uint(field, size)
	switch kind {
	case ggufF32:
		return float64(math.Float32frombits(uint32(bits)))
	case ggufF64:
		return math.Float64frombits(bits)
	case ggufI8, ggufI16, ggufI32, ggufI64:
		unused := 64 - 8*size
		return int64(bits<<unused) >> unused
	}
	if bits > math.MaxInt64 {
		return bits
	}
	return int64(bits)
}

func (c *cursor) array(field string) any {
	kind, n := c.u32(field), c.u64(field)
	if kind >= uint32(len(ggufSizes)) || kind == ggufArray {
		c.fail(field, "is an array of unknown or nested type %d", kind)
		return nil
	}
	size := uint64(ggufSizes[kind])
	if n > uint64(c.left())/size {
		c.fail(field, "is an array of %d elements, the file has %d bytes left", n, c.left())
		return nil
	}
	if kind != ggufString {
		return ggufNumbers{kind, c.bytes(field, n*size)}
	}
	var list []string
	for i := uint64(0); i < n && c.err == nil; i++ {
		list = append(list, c.string(field))
	}
	return list
}

// tensor reads a tensor's description, in which the contiguous dimension is first.
func (c *cursor) tensor(field string) (shape []int, kind string, offset int) {
	dims := c.u32(field)
	if dims > 4 {
		c.fail(field, "has %d dimensions, at most 4 are accepted", dims)
		return nil, "", 0
	}
	shape = make([]int, dims)
	for i := range shape {
		shape[len(shape)-1-i] = c.size(field)
	}
	number := c.u32(field)
	kind, known := ggmlTypes[number]
	if !known {
		kind = fmt.Sprintf("number %d", number)
	}
	return shape, kind, c.size(field)
}

// size is a u64 that counts elements or bytes of a file; it stays far from overflow.
func (c *cursor) size(field string) int {
	n := c.u64(field)
	if n > math.MaxInt/2 {
		c.fail(field, "a size or offset of %d", n)
		return 0
	}
	return int(n)
}
