package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// ProbeMMA is the launch, over some blocks, of a kernel that only multiplies matrices
// of dt, for benchmarks. It writes one f32 that means nothing to out.
func ProbeMMA(c *Calls, dt backend.DType, out Place, iterations, blocks uint32) {
	c.clear()
	args := abi.ProbeMmaArgs{Iterations: iterations}
	c.add(Kernel{Op: OpProbeMMA, In: dt}, [3]uint32{blocks, 1, 1}, 0, args.Encode(), out)
}

// ProbeRead is the launch, over some blocks, of a kernel that only reads memory, for
// benchmarks: bytes bytes of src, a multiple of 16, are added up in the u32 at out.
func ProbeRead(c *Calls, src, out Place, bytes int64, blocks uint32) {
	c.clear()
	args := abi.ProbeReadArgs{Bytes: bytes}
	c.add(Kernel{Op: OpProbeRead}, [3]uint32{blocks, 1, 1}, 0, args.Encode(), src, out)
}
