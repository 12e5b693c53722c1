//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// Append writes new keys and values into the cache, rotated where Rope is set, in
// one launch. A slot outside the cache is skipped, a position outside the rope table
// is taken for its last.
func (be *Backend) Append(s backend.Stream, p backend.AppendParams[*Buffer]) error {
	ops, own, err := be.begin("append", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Append(p); err != nil || p.Tokens == 0 {
		return err
	}
	v, act := &p.Cache, p.K.Buf.dt
	a := arguments{op: "append"}
	args := abi.AppendArgs{
		Slots: int64(v.Blocks) * int64(v.BlockSize), Tokens: a.count("tokens", p.Tokens), KVHeads: a.heads("KV heads", v.KVHeads),
		KDim: uint32(v.K.Dim), VDim: uint32(v.V.Dim), BlockSize: a.count("block size", v.BlockSize),
	}
	buffers := [abi.AppendBuffers]driver.Ptr{
		abi.AppendSlots: p.Slots.ptr, abi.AppendKCache: a.plane("keys", v.K), abi.AppendVCache: a.plane("values", v.V),
	}
	buffers[abi.AppendK], args.KStride = rows(p.K, v.KVHeads*v.K.Dim)
	buffers[abi.AppendV], args.VStride = rows(p.V, v.KVHeads*v.V.Dim)
	units := int64(v.KVHeads) * int64(v.K.Dim+v.V.Dim) // of a token: elements, or pairs that rotate
	if r := &p.Rope; r.Table.Set {
		pairs := int64(r.Dims / 2)
		units -= int64(v.KVHeads) * pairs
		args.Flags = abi.RoPE | pairing(r.Pairing)
		args.RoPEDims, args.RoPEPositions, args.Magnitude = uint32(r.Dims), a.count("rope positions", r.Positions), r.Magnitude
		buffers[abi.AppendRoPE], buffers[abi.AppendPositions] = r.Table.Buf.ptr, p.Positions.Buf.ptr
		if p.QHeads > 0 {
			args.QHeads = a.heads("query heads", p.QHeads)
			buffers[abi.AppendQ], args.QStride = rows(p.Q, p.QHeads*v.K.Dim)
			units += int64(p.QHeads) * pairs
		}
	}
	if a.err != nil {
		return a.err
	}
	k, err := be.kernel("append", kernelID{op: appendOp, in: act, out: v.K.Data.dt})
	if err != nil {
		return err
	}
	perThread := vectorBytes / min(elementSize(act), elementSize(v.K.Data.dt))
	return be.failed("append", own.launch(k, gridOf(int64(p.Tokens), 1, units, perThread*int64(k.threads)), args.Encode(), buffers[:]...))
}

// pairing is the flag of a rotation's pairs.
func pairing(p backend.Pairing) uint32 {
	if p == backend.Interleaved {
		return abi.Interleaved
	}
	return 0
}
