package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// appendQuant is Append to planes of quantized types, and of floats whose keys are stored with
// a Hadamard rotation, which turns queries, too.
func appendQuant[B Buffer](c *Calls, p *backend.AppendParams[B]) error {
	v, act := &p.Cache, p.K.Buf.DType()
	a, size := arguments{op: "append"}, elementSize(act)
	args := abi.AppendQuantArgs{
		Flags: hadamard(v.K) | latent(v), Slots: int64(v.Blocks) * int64(v.BlockSize),
		Tokens: a.count("tokens", p.Tokens), KVHeads: a.heads("KV heads", v.KVHeads),
		KDim: uint32(rest(v)), VDim: uint32(v.V.Dim), BlockSize: a.count("block size", v.BlockSize),
		KStorage: abi.Storage(v.K.Data.DType()), VStorage: abi.Storage(values(v).Data.DType()),
	}
	if p.Saturate {
		args.Flags |= abi.Saturate
	}
	buffers := [abi.AppendQuantBuffers]Place{
		abi.AppendQuantSlots: p.Slots.Place(), abi.AppendQuantKCache: plane(&a, "keys", v.K), abi.AppendQuantVCache: plane(&a, "values", *values(v)),
		abi.AppendQuantKscales: wordsOf(v.K), abi.AppendQuantVscales: wordsOf(*values(v)),
	}
	buffers[abi.AppendQuantK], args.KStride = rows(p.K, v.KVHeads*rest(v), size)
	buffers[abi.AppendQuantV], args.VStride = rows(p.V, v.KVHeads*v.V.Dim, size)
	if r := &p.Rotary; r.Table.Set {
		args.Flags |= abi.RoPE | pairing(r.Pairing)
		args.RoPEDims, args.RoPEPositions, args.Magnitude = uint32(r.Dims), a.count("rope positions", r.Positions), r.Magnitude
		buffers[abi.AppendQuantRoPE], buffers[abi.AppendQuantPositions] = r.Table.Buf.Place(), p.Positions.Buf.Place()
	}
	units := 2 * int64(v.KVHeads) // of a token: rows
	if v.Latent {
		units = int64(v.KVHeads)
	}
	if p.QHeads > 0 && args.Flags&(abi.RoPE|abi.Hadamard) != 0 {
		args.QHeads = a.heads("query heads", p.QHeads)
		buffers[abi.AppendQuantQ], args.QStride = rows(p.Q, p.QHeads*v.K.Dim, size)
		units += int64(p.QHeads)
	}
	if a.err == nil {
		buffers[abi.AppendQuantStatus], a.err = c.Status()
	}
	if a.err != nil {
		return a.err
	}
	constants := with(abi.WithRoPE, buffers[abi.AppendQuantRoPE]) | with(abi.WithQueries, buffers[abi.AppendQuantQ]) |
		wide(act, act, args.KStride|args.VStride|args.QStride|int64(v.K.Dim)|int64(v.V.Dim)|int64(rest(v)),
			buffers[abi.AppendQuantK], buffers[abi.AppendQuantV], buffers[abi.AppendQuantQ])
	c.add(Kernel{Op: OpAppendQuant.long(v.Latent), In: act}, gridOf(int64(p.Tokens), 1, units, unitRows(max(v.K.Dim, v.V.Dim))), constants, args.Encode(), buffers[:]...)
	return nil
}

// rotateQuant is Rotate of keys of quantized types, and of those with a Hadamard rotation.
func rotateQuant[B Buffer](c *Calls, p *backend.RotateParams[B]) error {
	v := &p.Cache
	a := arguments{op: "rotate"}
	args := abi.RotateQuantArgs{
		Flags: pairing(p.Rotary.Pairing) | hadamard(v.K), Slots: int64(v.Blocks) * int64(v.BlockSize), N: a.count("slots", p.N),
		KVHeads: a.heads("KV heads", v.KVHeads), KDim: uint32(v.K.Dim), BlockSize: a.count("block size", v.BlockSize),
		RoPEDims: uint32(p.Rotary.Dims), RoPEPositions: a.count("rope positions", p.Rotary.Positions), Storage: abi.Storage(v.K.Data.DType()),
	}
	buffers := [abi.RotateQuantBuffers]Place{
		abi.RotateQuantK: plane(&a, "keys", v.K), abi.RotateQuantScales: wordsOf(v.K),
		abi.RotateQuantSlots: p.Slots.Place(), abi.RotateQuantDeltas: p.Deltas.Place(), abi.RotateQuantRoPE: p.Rotary.Table.Buf.Place(),
	}
	if a.err != nil {
		return a.err
	}
	c.add(Kernel{Op: OpRotateQuant.long(v.Latent)}, gridOf(int64(p.N), 1, int64(v.KVHeads), unitRows(v.K.Dim)), 0, args.Encode(), buffers[:]...)
	return nil
}

// wordsOf is the scales of a plane, or, where it has none, other memory, as Metal wants it
// after every argument.
func wordsOf[B Buffer](p backend.Plane[B]) Place {
	if p.Scales.Set {
		return p.Scales.Buf.Place()
	}
	return p.Data.Place()
}

// hadamard is the flag of keys that are stored turned.
func hadamard[B Buffer](p backend.Plane[B]) uint32 {
	if p.Hadamard {
		return abi.Hadamard
	}
	return 0
}
