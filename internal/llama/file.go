package llama

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
)

// file is a model file in memory. Every length found inside is held against what
// is there before memory is reserved for it.
type file struct {
	name string
	data []byte
}

// open reads a regular file.
func open(fsys fs.FS, name string) (file, error) {
	f := file{name: name}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return f, err
	}
	if !info.Mode().IsRegular() {
		return f, f.bad("type", "is not a regular file")
	}
	f.data, err = fs.ReadFile(fsys, name)
	return f, err
}

func (f file) bad(field, format string, a ...any) error {
	return ErrFile{File: f.name, Field: field, Why: fmt.Sprintf(format, a...)}
}

func (f file) unsupported(format string, a ...any) error {
	return ErrUnsupported{File: f.name, Feature: fmt.Sprintf(format, a...)}
}

// cursor reads little-endian fields one after another. The first failure stays
// in err, named after its field; from then on every read gives zeros.
type cursor struct {
	file
	at  int
	err error
}

func (c *cursor) fail(field, format string, a ...any) {
	if c.err == nil {
		c.err = c.bad(field, format, a...)
	}
}

func (c *cursor) left() int { return len(c.data) - c.at }

// bytes is the next n bytes, a part of the file.
func (c *cursor) bytes(field string, n uint64) []byte {
	if n > uint64(c.left()) {
		c.fail(field, "needs %d bytes at offset %d, the file has %d left", n, c.at, c.left())
	}
	if c.err != nil {
		return nil
	}
	c.at += int(n)
	return c.data[c.at-int(n) : c.at]
}

// uint is a number of size bytes, at most eight.
func (c *cursor) uint(field string, size int) uint64 {
	var word [8]byte
	copy(word[:], c.bytes(field, uint64(size)))
	return binary.LittleEndian.Uint64(word[:])
}

func (c *cursor) u32(field string) uint32  { return uint32(c.uint(field, 4)) }
func (c *cursor) u64(field string) uint64  { return c.uint(field, 8) }
func (c *cursor) f32(field string) float32 { return math.Float32frombits(c.u32(field)) }

// string is a text behind its length (u64), as GGUF has it.
func (c *cursor) string(field string) string { return string(c.bytes(field, c.u64(field))) }
