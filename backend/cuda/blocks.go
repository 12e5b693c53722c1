//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

const (
	blockSlice  = 16 << 10 // bytes of a plane's block that a block of the grid copies
	slotColumns = 128      // bytes of a slot that a block of the grid moves
)

// CopyBlocks copies whole blocks within a cache. A pair with a block outside it is
// skipped.
func (be *Backend) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[*Buffer]) error {
	ops, own, err := be.begin("copy blocks", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.CopyBlocks(p); err != nil || p.N == 0 {
		return err
	}
	v := &p.Cache
	a := arguments{op: "copy blocks"}
	slots := int64(v.KVHeads) * int64(v.BlockSize)
	args := abi.CopyBlocksArgs{Pairs: a.count("pairs", p.N), Blocks: a.count("blocks", v.Blocks),
		KBytes: slots * rowBytes(v.K), VBytes: slots * rowBytes(v.V)}
	buffers := [abi.CopyBlocksBuffers]driver.Ptr{
		abi.CopyBlocksK: a.plane("keys", v.K), abi.CopyBlocksV: a.plane("values", v.V), abi.CopyBlocksPairs: p.Pairs.ptr,
	}
	if a.err != nil {
		return a.err
	}
	k, err := be.kernel("copy blocks", kernelID{op: copyBlocksOp})
	if err != nil {
		return err
	}
	return be.failed("copy blocks", own.launch(k, gridOf(max(args.KBytes, args.VBytes), blockSlice, int64(p.N), 1), args.Encode(), buffers[:]...))
}

// MoveSlots copies single slots within a cache, with the result of one after
// another. A pair with a slot outside it is skipped.
func (be *Backend) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[*Buffer]) error {
	ops, own, err := be.begin("move slots", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.MoveSlots(p); err != nil || p.N == 0 {
		return err
	}
	v := &p.Cache
	a := arguments{op: "move slots"}
	args := abi.MoveSlotsArgs{Pairs: int64(p.N), Slots: int64(v.Blocks) * int64(v.BlockSize), KVHeads: a.heads("KV heads", v.KVHeads),
		BlockSize: a.count("block size", v.BlockSize), KBytes: uint32(rowBytes(v.K)), VBytes: uint32(rowBytes(v.V))}
	buffers := [abi.MoveSlotsBuffers]driver.Ptr{
		abi.MoveSlotsK: a.plane("keys", v.K), abi.MoveSlotsV: a.plane("values", v.V), abi.MoveSlotsPairs: p.Pairs.ptr,
	}
	if a.err != nil {
		return a.err
	}
	k, err := be.kernel("move slots", kernelID{op: moveSlotsOp})
	if err != nil {
		return err
	}
	bytes := int64(v.KVHeads) * (rowBytes(v.K) + rowBytes(v.V))
	return be.failed("move slots", own.launch(k, gridOf(bytes, slotColumns, 1, 1), args.Encode(), buffers[:]...))
}

// rowBytes is the bytes of one head of a slot.
func rowBytes(p backend.Plane[*Buffer]) int64 { return int64(p.Dim) * elementSize(p.Data.dt) }
