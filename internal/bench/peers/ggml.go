//go:build peers

// Package peers runs the attention of other libraries, for a benchmark that compares them with this one: of ggml, which is
// linked, and of ONNX Runtime, whose library is opened. scripts/bench-peers says where they come from and sets the flags of
// the compiler and the linker; without the tag peers nothing of it is built. What it makes lives as long as the process.
package peers

/*
#include "ggml.h"
#include "peers.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Type is how keys and values are stored, as ggml counts types.
type Type int

const (
	F32  Type = C.GGML_TYPE_F32
	F16  Type = C.GGML_TYPE_F16
	Q8_0 Type = C.GGML_TYPE_Q8_0
	Q4_0 Type = C.GGML_TYPE_Q4_0
)

// Size is the bytes of that many elements of a row.
func (t Type) Size(elements int) int { return int(C.peers_ggml_size(C.int(t), C.int(elements))) }

// Shape is a call for one sequence. Its queries are those of the last keys, and each sees the keys up to its own.
type Shape struct {
	Type                               Type
	Heads, KVHeads, Dim, Keys, Queries int
}

func (s Shape) c() C.struct_peers_shape {
	return C.struct_peers_shape{C.int(s.Type), C.int(s.Heads), C.int(s.KVHeads), C.int(s.Dim), C.int(s.Keys), C.int(s.Queries)}
}

// GgmlVersion is that of the library and its commit.
func GgmlVersion() string {
	return fmt.Sprintf("%s (%s)", C.GoString(C.ggml_version()), C.GoString(C.ggml_commit()))
}

// Pool is ggml's threads. They wait actively: whoever measures something else pauses them.
type Pool struct {
	c       unsafe.Pointer
	threads int
}

// NewPool is a pool that is paused.
func NewPool(threads int) *Pool { return &Pool{C.peers_ggml_pool(C.int(threads)), threads} }

// Pause ends the waiting of the threads, and Resume begins it.
func (p *Pool) Pause()  { C.peers_ggml_pause(p.c) }
func (p *Pool) Resume() { C.peers_ggml_resume(p.c) }

// Attention is a call of ggml's. Query and Output are [queries, heads, dim].
type Attention struct {
	c             unsafe.Pointer
	Query, Output []float32
}

// Attention makes the graph of a call: flash attention over keys and values [KV heads, keys, dim], or, plain, two products of
// matrices and a softmax, over keys [keys, KV heads, dim] and values [KV heads, dim, keys].
func (p *Pool) Attention(s Shape, plain bool) (*Attention, error) {
	shape, flag := s.c(), C.int(0)
	if plain {
		flag = 1
	}
	c := C.peers_ggml_attention(p.c, C.int(p.threads), &shape, flag)
	if c == nil {
		return nil, errors.New("ggml: no memory")
	}
	n := s.Queries * s.Heads * s.Dim
	return &Attention{c, unsafe.Slice((*float32)(C.peers_ggml_query(c)), n), unsafe.Slice((*float32)(C.peers_ggml_output(c)), n)}, nil
}

// Run computes it over keys and values that lie outside of Go's heap. The pool is not paused.
func (a *Attention) Run(keys, values []byte) error {
	if status := C.peers_ggml_run(a.c, address(keys), address(values)); status != 0 {
		return fmt.Errorf("ggml: status %d", status)
	}
	return nil
}

func address(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
