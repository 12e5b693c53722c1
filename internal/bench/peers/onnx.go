//go:build peers

package peers

/*
#include <stdlib.h>
#include "peers.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// onnxTypes is ONNX's numbers of types, and the bytes of an element.
var onnxTypes = map[Type][2]int{F32: {1, 4}, F16: {10, 2}}

func onnxError() error { return errors.New("ONNX Runtime: " + C.GoString(C.peers_onnx_error())) }

// OpenONNX loads the library, and returns its version.
func OpenONNX(library string) (version string, err error) {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	if C.peers_onnx_open(path) != 0 {
		return "", onnxError()
	}
	return C.GoString(C.peers_onnx_version()), nil
}

// Session is ONNX Runtime's GroupQueryAttention with threads of its own.
type Session struct{ c unsafe.Pointer }

// NewSession is a session for keys of a type, F32 or F16.
func NewSession(t Type, heads, kvHeads, threads int) (*Session, error) {
	text := groupQueryAttention(onnxTypes[t][0], heads, kvHeads)
	model := C.CBytes(text)
	defer C.free(model)
	c := C.peers_onnx_session(model, C.size_t(len(text)), C.int(threads))
	if c == nil {
		return nil, onnxError()
	}
	return &Session{c}, nil
}

// Operands is those of a call, all outside of Go's heap: rows [queries, heads, dim], the keys and values of the queries [queries,
// KV heads, dim], and all keys and values [KV heads, keys, dim], which the call writes those of the queries into.
type Operands struct{ Query, NewKeys, NewValues, Keys, Values, Output []byte }

// Call is a session with its operands.
type Call struct{ c unsafe.Pointer }

// Bind makes a call. The caller frees it.
func (s *Session) Bind(shape Shape, o Operands) (*Call, error) {
	c, t := shape.c(), onnxTypes[shape.Type]
	bound := C.peers_onnx_bind(s.c, &c, C.int(t[0]), C.size_t(t[1]), address(o.Query), address(o.NewKeys), address(o.NewValues), address(o.Keys), address(o.Values), address(o.Output))
	if bound == nil {
		return nil, onnxError()
	}
	return &Call{bound}, nil
}

// Run computes it.
func (c *Call) Run() error {
	if C.peers_onnx_run(c.c) != 0 {
		return onnxError()
	}
	return nil
}

// Free leaves the operands to the caller.
func (c *Call) Free() { C.peers_onnx_free(c.c) }

// Alloc is zeroed memory outside of Go's heap.
func Alloc(bytes int) []byte {
	return unsafe.Slice((*byte)(C.calloc(1, C.size_t(bytes))), bytes)
}
