//go:build linux && cgo && !nocuda

package driver

// #include "driver.h"
// #include "types.h"
// #cgo noescape fkv_describe
// #cgo nocallback fkv_describe
import "C"

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Error is what one of the driver library's functions returned.
type Error struct {
	Call string // the function: "cuStreamSynchronize"
	Code int    // CUresult
	Name string // "CUDA_ERROR_ILLEGAL_ADDRESS"
	Text string // the driver's own words
}

func (e Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s returned %d, an error unknown to the driver", e.Call, e.Code)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Call, e.Text, e.Name)
}

// Unwrap is the backend's error that the code stands for: ErrOutOfMemory, ErrLost
// for a context that no call can repair, ErrUnavailable for a driver or device
// that cannot be used, ErrCapture for what a stream that is being captured does not
// take; nil for any other.
func (e Error) Unwrap() error {
	switch e.Code {
	case C.CUDA_ERROR_OUT_OF_MEMORY:
		return backend.ErrOutOfMemory{}
	case C.CUDA_ERROR_ECC_UNCORRECTABLE, C.CUDA_ERROR_NVLINK_UNCORRECTABLE,
		C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_CONTEXT_IS_DESTROYED,
		C.CUDA_ERROR_ASSERT, C.CUDA_ERROR_HARDWARE_STACK_ERROR, C.CUDA_ERROR_ILLEGAL_INSTRUCTION,
		C.CUDA_ERROR_MISALIGNED_ADDRESS, C.CUDA_ERROR_INVALID_ADDRESS_SPACE, C.CUDA_ERROR_INVALID_PC,
		C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_MPS_CLIENT_TERMINATED, C.CUDA_ERROR_EXTERNAL_DEVICE:
		return backend.ErrLost
	case C.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, C.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, C.CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
		C.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, C.CUDA_ERROR_CAPTURED_EVENT:
		return backend.ErrCapture{Op: e.Call, Do: "call it before the capture or after it"}
	case C.CUDA_ERROR_INVALID_CONTEXT: // a neighbour in the process has reset the device
		if e.Call == "cuCtxPushCurrent_v2" {
			return backend.ErrLost
		}
	}
	if why := unavailable[e.Code]; why != "" {
		return backend.ErrUnavailable{Backend: "cuda", Why: why}
	}
	return nil
}

// unavailable says what to do about the results of a library that is there and
// cannot be used.
var unavailable = map[int]string{
	C.CUDA_ERROR_STUB_LIBRARY:                   "the library found is the toolkit's stub, not a driver; take its folder out of the library path",
	C.CUDA_ERROR_DEVICE_UNAVAILABLE:             "the device is busy, or its compute mode admits no more processes (nvidia-smi -q -d COMPUTE)",
	C.CUDA_ERROR_NO_DEVICE:                      "the driver finds no NVIDIA device",
	C.CUDA_ERROR_INVALID_DEVICE:                 "no such device",
	C.CUDA_ERROR_SYSTEM_NOT_READY:               "the system is not ready; is nvidia-fabricmanager running?",
	C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:         "libcuda and the kernel module are of different versions; restart after a driver update",
	C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: "the forward-compatible libcuda does not support this device; use the driver's own",
}

// check turns a status of library into an error.
func check(library C.uintptr_t, s C.struct_fkv_status) error {
	if s.code == C.CUDA_SUCCESS {
		return nil
	}
	var name, text [256]C.char
	C.fkv_describe(library, s.code, &name[0], &text[0], C.size_t(len(name)))
	return Error{Call: C.GoString(C.fkv_call_name(s.call)), Code: int(s.code), Name: C.GoString(&name[0]), Text: C.GoString(&text[0])}
}
