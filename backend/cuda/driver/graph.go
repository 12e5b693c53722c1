//go:build linux && cgo && !nocuda

package driver

// #include "driver.h"
// #include "types.h"
// #cgo nocallback fkv_capture_begin
// #cgo noescape fkv_capture_end
// #cgo nocallback fkv_capture_end
// #cgo noescape fkv_capture_get
// #cgo nocallback fkv_capture_get
// #cgo nocallback fkv_graph_destroy
// #cgo noescape fkv_graph_instantiate
// #cgo nocallback fkv_graph_instantiate
// #cgo nocallback fkv_graph_launch
// #cgo nocallback fkv_exec_destroy
import "C"

// CaptureMode is what a capture forbids beside it: calls that may wait for the device,
// such as Alloc, of no thread, of its own, or of any.
type CaptureMode int32

const (
	Relaxed     CaptureMode = C.CU_STREAM_CAPTURE_MODE_RELAXED
	ThreadLocal CaptureMode = C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	Global      CaptureMode = C.CU_STREAM_CAPTURE_MODE_GLOBAL
)

// Graph is captured work, a CUgraph.
type Graph uintptr

// Exec is a graph that can be launched, a CUgraphExec, of a Device with Graphs.
type Exec uintptr

// BeginCapture makes the stream keep what is enqueued on it, and not run it. Only a
// relaxed capture may be ended by another thread.
func (c *Context) BeginCapture(s Stream, mode CaptureMode) error {
	return c.check(C.fkv_capture_begin(c.c, C.uintptr_t(s), C.int32_t(mode)))
}

// EndCapture returns what the stream has kept; whatever it returns, the stream runs work
// again.
func (c *Context) EndCapture(s Stream) (Graph, error) {
	var g C.uintptr_t
	err := c.check(C.fkv_capture_end(c.c, C.uintptr_t(s), &g))
	return Graph(g), err
}

// Capturing reports whether the stream keeps work, whoever has made it so.
func (c *Context) Capturing(s Stream) (bool, error) {
	var capturing C.int32_t
	err := c.check(C.fkv_capture_get(c.c, C.uintptr_t(s), &capturing))
	return capturing != 0, err
}

// DestroyGraph ends a graph; what was made of it stays.
func (c *Context) DestroyGraph(g Graph) error {
	return c.check(C.fkv_graph_destroy(c.c, C.uintptr_t(g)))
}

// Instantiate makes something to launch of a graph.
func (c *Context) Instantiate(g Graph) (Exec, error) {
	var e C.uintptr_t
	err := c.check(C.fkv_graph_instantiate(c.c, C.uintptr_t(g), &e))
	return Exec(e), err
}

// LaunchGraph enqueues all of e on the stream.
func (c *Context) LaunchGraph(e Exec, s Stream) error {
	return c.check(C.fkv_graph_launch(c.c, C.uintptr_t(e), C.uintptr_t(s)))
}

// DestroyExec ends what Instantiate made. No launch of it is under way.
func (c *Context) DestroyExec(e Exec) error { return c.check(C.fkv_exec_destroy(c.c, C.uintptr_t(e))) }
