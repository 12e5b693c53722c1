package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// Merge combines attention results over disjoint sets of keys.
func Merge[B Buffer](c *Calls, p *backend.MergeParams[B]) error {
	c.clear()
	if p.Tokens == 0 {
		return nil
	}
	a := arguments{op: "merge"}
	args := abi.MergeArgs{Parts: a.count("parts", p.Parts), Tokens: a.count("tokens", p.Tokens),
		Heads: a.count("heads", p.Heads), Dim: a.count("dim", p.Dim)}
	buffers := [abi.MergeBuffers]Place{abi.MergeIn: p.In.Place(), abi.MergeLSE: p.LSE.Place(), abi.MergeOutLSE: optional(p.OutLSE)}
	in, out := p.In.DType(), p.Out.Buf.DType()
	buffers[abi.MergeOut], args.OutStride = rows(p.Out, p.Heads*p.Dim, elementSize(out))
	if a.err != nil {
		return a.err
	}
	constants := with(abi.WithLSE, buffers[abi.MergeOutLSE]) |
		wide(in, out, args.OutStride|int64(p.Dim), buffers[abi.MergeIn], buffers[abi.MergeOut])
	grid := gridOf(int64(p.Tokens)*int64(p.Heads), mergeRows, 1, 1)
	c.add(Kernel{Op: OpMerge, In: in, Out: out}, grid, constants, args.Encode(), buffers[:]...)
	return nil
}
