package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// Append writes new keys and values into the cache, in one launch. A slot outside the cache is
// skipped; a position outside the rotary table is taken as its last one. Sync reports values that
// could not be quantized.
func Append[B Buffer](c *Calls, p *backend.AppendParams[B]) error {
	c.clear()
	if p.Tokens == 0 {
		return nil
	}
	if p.Cache.K.Data.DType().Quantized() || p.Cache.K.Hadamard {
		return appendQuant(c, p)
	}
	v, act, stored := &p.Cache, p.K.Buf.DType(), p.Cache.K.Data.DType()
	size := elementSize(act)
	a := arguments{op: "append"}
	var args abi.AppendArgs
	args.Slots, args.BlockSize = int64(v.Blocks)*int64(v.BlockSize), a.count("block size", v.BlockSize)
	args.Tokens, args.KVHeads = a.count("tokens", p.Tokens), a.heads("KV heads", v.KVHeads)
	args.KDim, args.VDim = uint32(rest(v)), uint32(v.V.Dim)
	var buffers [abi.AppendBuffers]Place
	buffers[abi.AppendSlots] = p.Slots.Place()
	buffers[abi.AppendKCache], buffers[abi.AppendVCache] = plane(&a, "keys", v.K), plane(&a, "values", *values(v))
	buffers[abi.AppendK], args.KStride = rows(p.K, v.KVHeads*rest(v), size)
	buffers[abi.AppendV], args.VStride = rows(p.V, v.KVHeads*v.V.Dim, size)
	units := int64(v.KVHeads) * int64(rest(v)+v.V.Dim) // of a token: elements, or pairs that rotate
	args.Flags = latent(v)
	pairs := int64(0)
	if r := &p.Rotary; r.Table.Set {
		pairs = int64(r.Dims / 2)
		units -= int64(v.KVHeads) * pairs
		args.Flags |= abi.RoPE | pairing(r.Pairing)
		args.RoPEDims, args.RoPEPositions, args.Magnitude = uint32(r.Dims), a.count("rope positions", r.Positions), r.Magnitude
		buffers[abi.AppendRoPE], buffers[abi.AppendPositions] = r.Table.Buf.Place(), p.Positions.Buf.Place()
		if p.QHeads > 0 {
			args.QHeads = a.heads("query heads", p.QHeads)
			buffers[abi.AppendQ], args.QStride = rows(p.Q, p.QHeads*v.K.Dim, size)
			units += int64(p.QHeads) * pairs
		}
	}
	if a.err != nil {
		return a.err
	}
	constants := with(abi.WithRoPE, buffers[abi.AppendRoPE]) | with(abi.WithQueries, buffers[abi.AppendQ]) |
		wide(act, stored, args.KStride|args.VStride|args.QStride|int64(v.K.Dim)|int64(v.V.Dim)|int64(rest(v))|pairs,
			buffers[abi.AppendK], buffers[abi.AppendV], buffers[abi.AppendQ], buffers[abi.AppendRoPE], buffers[abi.AppendKCache], buffers[abi.AppendVCache])
	grid := gridOf(int64(p.Tokens), 1, units, perRun(act, stored)*UnitThreads)
	c.add(Kernel{Op: OpAppend, In: act, Out: stored}, grid, constants, args.Encode(), buffers[:]...)
	return nil
}
