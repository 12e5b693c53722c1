//go:build linux && cgo && metalsimt && !nometal

package metalsimt

// CGO_LDFLAGS links the stand-in, in the variant under test.

// #cgo CFLAGS: -I${SRCDIR}/../../../kernels/simt/metal
// #include <stdlib.h>
// #include "control.h"
import "C"

import "unsafe"

// FailBuffer makes the n-th buffer from now on fail once: out of memory. 0 takes that
// back, as for the other failures.
func FailBuffer(n int) { C.fkv_metal_fail_buffer(C.uint64_t(n)) }

// FailLibrary makes the n-th library from now on fail once, as a compile error.
func FailLibrary(n int) { C.fkv_metal_fail_library(C.uint64_t(n)) }

// FailPipeline makes the n-th pipeline from now on fail once.
func FailPipeline(n int) { C.fkv_metal_fail_pipeline(C.uint64_t(n)) }

// FailCall makes the n-th call of any kind that can fail give nil once: of those above,
// and of newCommandQueue, newSharedEvent, commandBuffer, computeCommandEncoder and
// newFunctionWithName.
func FailCall(n int) { C.fkv_metal_fail_call(C.uint64_t(n)) }

// Codes of MTLCommandBufferError, for [FailCommands].
const (
	Internal      = 1
	Timeout       = 2
	PageFault     = 3
	AccessRevoked = 4
	NotPermitted  = 7
	OutOfMemory   = 8

	Foreign = C.FKV_METAL_FOREIGN // and more: the code of another domain
)

// FailCommands makes the n-th command buffer that runs from now on end with a code. Those
// after it run, but with AccessRevoked: then all of this process end so until the next
// FailCommands, which in a system only the next process does.
func FailCommands(n, code int) { C.fkv_metal_fail_commands(C.uint64_t(n), C.uint(code)) }

// Lose removes a device: nothing new is made on it, and its command buffers fail. It
// returns false when there is no such device.
func Lose(device int) bool { return C.fkv_metal_lose(C.int(device), 1) != 0 }

// Find brings a device back that [Lose] has removed.
func Find(device int) bool { return C.fkv_metal_lose(C.int(device), 0) != 0 }

// Seed begins the random order of queues, threadgroups and threads anew; 0: in order.
func Seed(n uint64) { C.fkv_metal_seed(C.uint64_t(n)) }

// Count returns what is alive and has happened, after handlers that are due have run.
func Count() Counts {
	var n C.struct_fkv_metal_counts
	C.fkv_metal_count(&n, C.sizeof_struct_fkv_metal_counts)
	return Counts{
		Buffers: uint64(n.buffers), Bytes: uint64(n.bytes),
		Queues: uint64(n.queues), CommandBuffers: uint64(n.command_buffers),
		Encoders: uint64(n.encoders), Events: uint64(n.events),
		Libraries: uint64(n.libraries), Functions: uint64(n.functions),
		Pipelines: uint64(n.pipelines), Others: uint64(n.others),
		Commits: uint64(n.commits), Dispatches: uint64(n.dispatches),
		Completed: uint64(n.completed), Failed: uint64(n.failed), Injected: uint64(n.injected),
	}
}

// Calls is how often a method was called, by its selector:
// "newBufferWithLength:options:".
func Calls(selector string) uint64 {
	s := C.CString(selector)
	defer C.free(unsafe.Pointer(s))
	return uint64(C.fkv_metal_calls(s))
}

// Report is what the stand-in said last about a broken kernel or a deadlock, empty when
// it had nothing to say.
func Report() string {
	var text [1024]C.char
	C.fkv_metal_report(&text[0], C.size_t(len(text)))
	return C.GoString(&text[0])
}
