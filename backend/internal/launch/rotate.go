package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// Rotate moves cached keys to other positions by rotating them. A slot outside the cache, or a
// distance outside the rotary table, is skipped.
func Rotate[B Buffer](c *Calls, p *backend.RotateParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	if p.Cache.K.Data.DType().Quantized() || p.Cache.K.Hadamard {
		return rotateQuant(c, p)
	}
	v, stored := &p.Cache, p.Cache.K.Data.DType()
	a := arguments{op: "rotate"}
	args := abi.RotateArgs{
		Flags: pairing(p.Rotary.Pairing), Slots: int64(v.Blocks) * int64(v.BlockSize), N: a.count("slots", p.N),
		KVHeads: a.heads("KV heads", v.KVHeads), KDim: uint32(v.K.Dim), BlockSize: a.count("block size", v.BlockSize),
		RoPEDims: uint32(p.Rotary.Dims), RoPEPositions: a.count("rope positions", p.Rotary.Positions),
	}
	buffers := [abi.RotateBuffers]Place{
		abi.RotateK: plane(&a, "keys", v.K), abi.RotateSlots: p.Slots.Place(), abi.RotateDeltas: p.Deltas.Place(), abi.RotateRoPE: p.Rotary.Table.Buf.Place(),
	}
	if v.Latent {
		args.RoPEAt = uint32(v.V.Dim)
	}
	if a.err != nil {
		return a.err
	}
	pairs := int64(p.Rotary.Dims / 2)
	constants := wide(stored, stored, int64(v.K.Dim)|int64(args.RoPEAt)|pairs, buffers[abi.RotateK], buffers[abi.RotateRoPE])
	units, perBlock := int64(v.KVHeads)*pairs, perRun(stored, stored)*UnitThreads
	grid := gridOf(int64(p.N), max(perBlock/units, 1), units, perBlock)
	c.add(Kernel{Op: OpRotate, In: stored}, grid, constants, args.Encode(), buffers[:]...)
	return nil
}
