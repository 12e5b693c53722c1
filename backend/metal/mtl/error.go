//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #include "mtl.h"
import "C"

import (
	"fmt"
	"sync/atomic"

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
	if meaning, ok := meanings[e.Code]; ok && e.ofCommand() {
		return fmt.Sprintf("%s: %s (%s %d, %s)", e.Call, e.Text, e.Domain, e.Code, meaning)
	}
	return fmt.Sprintf("%s: %s (%s %d)", e.Call, e.Text, e.Domain, e.Code)
}

// meanings are what the codes of command buffers say, and what to do:
// https://developer.apple.com/documentation/metal/mtlcommandbuffererror-swift.struct/code
var meanings = map[int64]string{
	C.MTL_COMMAND_INTERNAL:         "internal: Metal's words name the driver's own error; open the device again",
	C.MTL_COMMAND_TIMEOUT:          "timeout: the work ran longer than the system allows; open the device again, and take fewer tokens in a step",
	C.MTL_COMMAND_PAGE_FAULT:       "page fault: a kernel left its memory; report it, and open the device again",
	C.MTL_COMMAND_ACCESS_REVOKED:   "access revoked: the system ignores this process after too many errors; restart the process",
	C.MTL_COMMAND_NOT_PERMITTED:    "not permitted: the system does not let this process use the device",
	C.MTL_COMMAND_OUT_OF_MEMORY:    "out of memory: open the device again, and allocate less",
	C.MTL_COMMAND_INVALID_RESOURCE: "invalid resource: something was released that was in use; keep imported buffers until the work is done",
	C.MTL_COMMAND_DEVICE_REMOVED:   "device removed: open another",
	C.MTL_COMMAND_STACK_OVERFLOW:   "stack overflow: report it, and open the device again",
}

// revoked is set for good once the system has revoked this process's access to its GPUs.
var revoked atomic.Bool

// errRevoked is what every device is from then on.
var errRevoked = backend.ErrUnavailable{Backend: "metal",
	Why: "the system ignores this process after too many errors of its work (access revoked); restart the process"}

// ofCommand reports whether the code is one of command buffers.
func (e Error) ofCommand() bool { return e.Call == C.MTL_COMMAND && e.Domain == C.MTL_COMMAND_DOMAIN }

// revokes reports whether the error ends this process's work on every device. Command buffers
// of queues that are made later fail alike, so that it does not help to open the device again.
func (e Error) revokes() bool {
	return e.ofCommand() && e.Code == C.MTL_COMMAND_ACCESS_REVOKED
}

// Unwrap is what the error stands for in package backend. A command buffer that failed is
// ErrLost, because nobody knows what it has written; ErrOutOfMemory too if that was the
// reason, and ErrUnavailable if the process cannot use any device any more. A buffer that
// Metal does not give is ErrOutOfMemory.
func (e Error) Unwrap() []error {
	switch {
	case e.revokes():
		return []error{backend.ErrLost, errRevoked}
	case e.ofCommand() && e.Code == C.MTL_COMMAND_OUT_OF_MEMORY:
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
	err := Error{Call: C.GoString(e.call), Domain: C.GoString(e.domain), Code: int64(e.code), Text: C.GoString(e.text)}
	if err.revokes() {
		revoked.Store(true)
	}
	return err
}
