//go:build linux && cgo && !nocuda

package standin

// #cgo CFLAGS: -std=gnu99
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "bind.h"
import "C"

import (
	"sync"
	"unsafe"
)

// Control is the stand-in that the process runs on. It is safe for concurrent use;
// what it changes holds for the whole process.
type Control struct{ c C.struct_standin }

// Open returns the stand-in that [Path] names; ok is false when that is another
// library, or none.
func Open() (c *Control, ok bool) {
	c = open()
	return c, c != nil
}

var open = sync.OnceValue(func() *Control {
	path := C.CString(Path())
	defer C.free(unsafe.Pointer(path))
	c := new(Control)
	if Path() == "" {
		return nil
	}
	switch C.standin_open(path, &c.c) {
	case 1:
		return c
	case 0:
		return nil
	default: // skipped tests would hide it
		panic("standin: bind.h disagrees with kernels/simt/driver/control.h: build the library anew (make -C kernels/simt)")
	}
})

// FailAlloc makes the n-th allocation from now on, of device or pinned memory, fail
// once: out of memory. 0 takes that back.
func (c *Control) FailAlloc(n int) { C.standin_call(c.c.fail_alloc, C.uint64_t(n)) }

// FailLaunch makes the n-th launch from now on fail once: out of resources. 0 takes
// that back.
func (c *Control) FailLaunch(n int) { C.standin_call(c.c.fail_launch, C.uint64_t(n)) }

// FailCall makes the n-th call from now on fail once, with an unknown error. Calls
// that give something back do not count. 0 takes that back.
func (c *Control) FailCall(n int) { C.standin_call(c.c.fail_call, C.uint64_t(n)) }

// FailFunction makes the n-th call of a function of the driver from now on fail once with a CUresult,
// in addition to what was asked for before. 0 takes all of that back.
func (c *Control) FailFunction(name string, n, code int) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	C.standin_fail_function(&c.c, s, C.uint64_t(n), C.int(code))
}

// Hold makes calls of a function of the driver wait until release is called. They count as calls at once.
func (c *Control) Hold(name string) (release func()) {
	c.hold(name, 1)
	return func() { c.hold(name, 0) }
}

func (c *Control) hold(name string, on C.int) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	C.standin_hold(&c.c, s, on)
}

// Carveout is the shared memory that a kernel asked its multiprocessors to prefer, in percent; -1 where
// it did not, -2 where nobody has looked it up.
func (c *Control) Carveout(kernel string) int {
	s := C.CString(kernel)
	defer C.free(unsafe.Pointer(s))
	return int(C.standin_carveout(&c.c, s))
}

// JoinDefault makes a CUstream one that waits for the default stream and that the default stream waits
// for, as streams are by default. It returns false where there is no such stream.
func (c *Control) JoinDefault(stream uintptr) bool {
	return C.standin_join_default(&c.c, C.uint64_t(stream)) != 0
}

// Lose ends a device's context with a hardware error as soon as somebody waits for
// its work. It returns false when nobody has opened the device.
func (c *Control) Lose(device int) bool { return C.standin_lose(&c.c, C.int(device)) != 0 }

// Seed begins the random order of streams, blocks and threads anew; 0: in order.
func (c *Control) Seed(n uint64) { C.standin_call(c.c.seed, C.uint64_t(n)) }

// Counts returns what exists and has happened.
func (c *Control) Counts() Counts {
	var n C.struct_standin_counts
	C.standin_count(&c.c, &n)
	return Counts{
		DeviceAllocations: uint64(n.device_allocations), DeviceBytes: uint64(n.device_bytes),
		HostAllocations: uint64(n.host_allocations), HostBytes: uint64(n.host_bytes),
		Contexts: uint64(n.contexts), Streams: uint64(n.streams), Events: uint64(n.events),
		Modules: uint64(n.modules), Pools: uint64(n.pools), Graphs: uint64(n.graphs), Execs: uint64(n.execs),
		Launches: uint64(n.launches), Injected: uint64(n.injected),
		Misuse: uint64(n.misuse), Abandoned: uint64(n.abandoned), Spins: uint64(n.spins), Interrupts: uint64(n.interrupts),
		Remembered: uint64(n.remembered),
	}
}

// Calls is how often a function of the driver was called: "cuMemAlloc_v2".
func (c *Control) Calls(name string) uint64 {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return uint64(C.standin_calls(&c.c, s))
}

// Runs is how often a kernel ran, by the name that Kernels has it under.
func (c *Control) Runs(kernel string) uint64 {
	s := C.CString(kernel)
	defer C.free(unsafe.Pointer(s))
	return uint64(C.standin_runs(&c.c, s))
}

// Kernels are the symbols of the kernels that the stand-in can run; those of a folder of kernels/cuda/variants end in
// @FOLDER.
func (c *Control) Kernels() []string {
	var names []string
	for {
		name := C.standin_kernel(&c.c, C.size_t(len(names)))
		if name == nil {
			return names
		}
		names = append(names, C.GoString(name))
	}
}

// Launch is the threads of a block of the i-th of Kernels, and its bytes of dynamic shared memory.
func (c *Control) Launch(i int) (threads, shared int) {
	var t, s C.uint32_t
	C.standin_launch(&c.c, C.size_t(i), &t, &s)
	return int(t), int(s)
}

// Report is what the stand-in said last about a broken kernel or a misuse, empty
// when it had nothing to say.
func (c *Control) Report() string {
	var text [1024]C.char
	C.standin_report(&c.c, &text[0], C.size_t(len(text)))
	return C.GoString(&text[0])
}
