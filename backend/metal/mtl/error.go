//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #include "mtl.h"
import "C"

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Error is a call that failed, or a command buffer that did.
type Error struct {
	Call   string // the method, without its further parts: "newLibraryWithSource"; "MTLCommandBuffer"
	Domain string // of the NSError: "MTLCommandBufferErrorDomain"; empty where Metal gave no reason
	Code   int64  // of the domain
	Text   string // Metal's own words, a compiler's in full
}

func (e Error) Error() string {
	if e.Domain == "" {
		return fmt.Sprintf("%s: %s", e.Call, e.Text)
	}
	return fmt.Sprintf("%s: %s (%s %d)", e.Call, e.Text, e.Domain, e.Code)
}

// Unwrap is what the error stands for in package backend. A command buffer that failed is
// ErrLost, because nobody knows what it has written, and ErrOutOfMemory too if that was the
// reason; a buffer that Metal does not give is ErrOutOfMemory. Codes are on
// https://developer.apple.com/documentation/metal/mtlcommandbuffererror
func (e Error) Unwrap() []error {
	switch {
	case e.Call == C.MTL_COMMAND && e.Code == C.MTL_COMMAND_OUT_OF_MEMORY:
		return []error{backend.ErrLost, backend.ErrOutOfMemory{}}
	case e.Call == C.MTL_COMMAND:
		return []error{backend.ErrLost}
	case e.Call == C.MTL_NEW_BUFFER:
		return []error{backend.ErrOutOfMemory{}}
	}
	return nil
}

// check takes over what a function of the shim returned.
func check(e *C.struct_mtl_error) error {
	if e == nil {
		return nil
	}
	defer C.mtl_error_free(e)
	return Error{Call: C.GoString(e.call), Domain: C.GoString(e.domain), Code: int64(e.code), Text: C.GoString(e.text)}
}
