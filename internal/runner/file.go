package runner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/ferrumkv/ferrumkv/internal/modelfile"
)

// file is a model file in memory. Every length found inside is held against what is there before memory is reserved for it.
type file struct {
	name string
	data []byte
}

// open reads a regular file.
func open(fsys fs.FS, name string) (file, error) {
	f := file{name: name}
	info, err := fs.Stat(fsys, name)
	if err == nil && !info.Mode().IsRegular() {
		return f, f.bad("type", "is not a regular file")
	}
	if err == nil {
		f.data, err = fs.ReadFile(fsys, name)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok { // the system call that failed says nothing to a user
		err = fmt.Errorf("%s: %w", name, failed.Err)
	}
	return f, err
}

func (f file) bad(field, format string, a ...any) error {
	return modelfile.ErrFile{File: f.name, Field: field, Why: fmt.Sprintf(format, a...)}
}

func (f file) unsupported(format string, a ...any) error {
	return modelfile.ErrUnsupported{File: f.name, Feature: fmt.Sprintf(format, a...)}
}

// reader reads little-endian fields one after another. The first failure of
// whatever is made of them stays in err; from then on every read gives zeros.
type reader struct {
	file
	at  int
	err error
}

func (r *reader) fail(field, format string, a ...any) { r.keep(r.bad(field, format, a...)) }

func (r *reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) left() int { return len(r.data) - r.at }

// bytes is the next n bytes, a part of the file.
func (r *reader) bytes(field string, n uint64) []byte {
	if n > uint64(r.left()) {
		r.fail(field, "needs %d bytes at offset %d, the file has %d left", n, r.at, r.left())
	}
	if r.err != nil {
		return nil
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at]
}

type numeric interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

func number[T numeric](r *reader, field string) (v T) {
	_, _ = binary.Decode(r.bytes(field, uint64(binary.Size(v))), le, &v) // fails where bytes has failed
	return v
}

func (r *reader) u32(field string) uint32 { return number[uint32](r, field) }
func (r *reader) u64(field string) uint64 { return number[uint64](r, field) }

// string is a text behind its length (u64), as GGUF has it.
func (r *reader) string(field string) string { return string(r.bytes(field, r.u64(field))) }
