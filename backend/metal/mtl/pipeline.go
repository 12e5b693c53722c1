//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #include "mtl.h"
// #cgo noescape mtl_pipeline_make
// #cgo nocallback mtl_pipeline_make
import "C"

// Pipeline is a kernel that is ready to be launched, with its function constants set: an
// id<MTLComputePipelineState>. ID is 0 for none.
type Pipeline struct {
	ID      uintptr
	Threads int // most threads of a threadgroup: maxTotalThreadsPerThreadgroup
	Width   int // threads of a SIMD group: threadExecutionWidth
	Memory  int // bytes of threadgroup memory that the kernel declares
}

// NewPipeline makes a pipeline of a kernel of l. Function constants 0 to n-1, n at most 32,
// are booleans, the bits of constants; those that the kernel does not use do not matter.
func (d *Device) NewPipeline(l Library, name string, constants uint32, n int) (Pipeline, error) {
	var p C.struct_mtl_pipeline
	err := check(C.mtl_pipeline_make(d.id(), C.uintptr_t(l), text(name), C.size_t(len(name)), C.uint32_t(constants), C.uint32_t(n), &p))
	if err != nil {
		return Pipeline{}, err
	}
	return Pipeline{ID: uintptr(p.id), Threads: int(p.threads), Width: int(p.width), Memory: int(p.memory)}, nil
}

// Release gives the pipeline back; launches of it that are not over keep it.
func (p Pipeline) Release() { C.mtl_release(C.uintptr_t(p.ID)) }
