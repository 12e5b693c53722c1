//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// Rotate turns cached keys by a number of positions. A slot outside the cache, and a
// distance outside the rope table, is skipped.
func (be *Backend) Rotate(s backend.Stream, p backend.RotateParams[*Buffer]) error {
	ops, own, err := be.begin("rotate", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Rotate(p); err != nil || p.N == 0 {
		return err
	}
	v := &p.Cache
	a := arguments{op: "rotate"}
	args := abi.RotateArgs{
		Flags: pairing(p.Rope.Pairing), Slots: int64(v.Blocks) * int64(v.BlockSize), N: a.count("slots", p.N),
		KVHeads: a.heads("KV heads", v.KVHeads), KDim: uint32(v.K.Dim), BlockSize: a.count("block size", v.BlockSize),
		RoPEDims: uint32(p.Rope.Dims), RoPEPositions: a.count("rope positions", p.Rope.Positions),
	}
	buffers := [abi.RotateBuffers]driver.Ptr{
		abi.RotateK: a.plane("keys", v.K), abi.RotateSlots: p.Slots.ptr, abi.RotateDeltas: p.Deltas.ptr, abi.RotateRoPE: p.Rope.Table.Buf.ptr,
	}
	if a.err != nil {
		return a.err
	}
	k, err := be.kernel("rotate", kernelID{op: rotateOp, in: v.K.Data.dt})
	if err != nil {
		return err
	}
	pairs := int64(v.KVHeads) * int64(p.Rope.Dims) / 2
	perThread := vectorBytes / elementSize(v.K.Data.dt)
	return be.failed("rotate", own.launch(k, gridOf(int64(p.N), 1, pairs, perThread*int64(k.threads)), args.Encode(), buffers[:]...))
}
