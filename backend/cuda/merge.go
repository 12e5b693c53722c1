//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// mergeRows is how many rows a block of the grid merges at a time.
const mergeRows = 4

// Merge combines attention results over disjoint sets of keys.
func (be *Backend) Merge(s backend.Stream, p backend.MergeParams[*Buffer]) error {
	ops, own, err := be.begin("merge", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Merge(p); err != nil || p.Tokens == 0 {
		return err
	}
	a := arguments{op: "merge"}
	args := abi.MergeArgs{Parts: a.count("parts", p.Parts), Tokens: a.count("tokens", p.Tokens),
		Heads: a.count("heads", p.Heads), Dim: a.count("dim", p.Dim)}
	buffers := [abi.MergeBuffers]driver.Ptr{abi.MergeIn: p.In.ptr, abi.MergeLSE: p.LSE.ptr, abi.MergeOutLSE: address(p.OutLSE)}
	buffers[abi.MergeOut], args.OutStride = rows(p.Out, p.Heads*p.Dim)
	if a.err != nil {
		return a.err
	}
	k, err := be.kernel("merge", kernelID{op: mergeOp, in: p.In.dt, out: p.Out.Buf.dt})
	if err != nil {
		return err
	}
	return be.failed("merge", own.launch(k, gridOf(int64(p.Tokens)*int64(p.Heads), mergeRows, 1, 1), args.Encode(), buffers[:]...))
}
