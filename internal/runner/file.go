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

// failure is what the readers of a file panic with where it is wrong, so that they go on with nothing but what is right.
type failure struct{ error }

// caught makes the failure of a reader the error that its caller returns.
func caught(err *error) {
	switch failed := recover().(type) {
	case nil:
	case failure:
		*err = failed.error
	default:
		panic(failed)
	}
}

// fail gives the file up.
func (f file) fail(field, format string, a ...any) {
	panic(failure{modelfile.ErrFile{File: f.name, Field: field, Why: fmt.Sprintf(format, a...)}})
}

// refuse gives a sound file up.
func (f file) refuse(format string, a ...any) {
	panic(failure{modelfile.ErrUnsupported{File: f.name, Feature: fmt.Sprintf(format, a...)}})
}

// open reads a regular file.
func open(fsys fs.FS, name string) file {
	f := file{name: name}
	info, err := fs.Stat(fsys, name)
	if err == nil && !info.Mode().IsRegular() {
		f.fail("type", "is not a regular file")
	}
	if err == nil {
		f.data, err = fs.ReadFile(fsys, name)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok { // the system call that failed says nothing to a user
		err = fmt.Errorf("%s: %w", name, failed.Err)
	}
	if err != nil {
		panic(failure{err})
	}
	return f
}

// reader reads little-endian fields one after another.
type reader struct {
	file
	at int
}

func (r *reader) left() int { return len(r.data) - r.at }

// bytes is the next n bytes, a part of the file.
func (r *reader) bytes(field string, n uint64) []byte {
	if n > uint64(r.left()) {
		r.fail(field, "needs %d bytes at offset %d, the file has %d left", n, r.at, r.left())
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at]
}

type numeric interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

func number[T numeric](r *reader, field string) (v T) {
	_, _ = binary.Decode(r.bytes(field, uint64(binary.Size(v))), le, &v)
	return v
}

func (r *reader) u32(field string) uint32 { return number[uint32](r, field) }
func (r *reader) u64(field string) uint64 { return number[uint64](r, field) }

// string is a text behind its length (u64), as GGUF has it.
func (r *reader) string(field string) string { return string(r.bytes(field, r.u64(field))) }
