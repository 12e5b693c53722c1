package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// CopyBlocks is the launch that copies whole blocks within a cache.
func CopyBlocks[B Buffer](c *Calls, p backend.CopyBlocksParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	v := &p.Cache
	a := arguments{op: "copy blocks"}
	slots := int64(v.KVHeads) * int64(v.BlockSize)
	args := abi.CopyBlocksArgs{Pairs: a.count("pairs", p.N), Blocks: a.count("blocks", v.Blocks),
		KBytes: slots * rowBytes(v.K), VBytes: slots * rowBytes(v.V)}
	buffers := [abi.CopyBlocksBuffers]Place{
		abi.CopyBlocksK: plane(&a, "keys", v.K), abi.CopyBlocksV: plane(&a, "values", v.V), abi.CopyBlocksPairs: p.Pairs.Place(),
	}
	if a.err != nil {
		return a.err
	}
	grid := gridOf(max(args.KBytes, args.VBytes), blockSlice, int64(p.N), 1)
	c.add(Kernel{Op: OpCopyBlocks}, grid, 0, args.Encode(), buffers[:]...)
	return nil
}

// MoveSlots is the launch that copies single slots within a cache.
func MoveSlots[B Buffer](c *Calls, p backend.MoveSlotsParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	v := &p.Cache
	a := arguments{op: "move slots"}
	args := abi.MoveSlotsArgs{Pairs: int64(p.N), Slots: int64(v.Blocks) * int64(v.BlockSize), KVHeads: a.heads("KV heads", v.KVHeads),
		BlockSize: a.count("block size", v.BlockSize), KBytes: uint32(rowBytes(v.K)), VBytes: uint32(rowBytes(v.V))}
	buffers := [abi.MoveSlotsBuffers]Place{
		abi.MoveSlotsK: plane(&a, "keys", v.K), abi.MoveSlotsV: plane(&a, "values", v.V), abi.MoveSlotsPairs: p.Pairs.Place(),
	}
	if a.err != nil {
		return a.err
	}
	bytes := int64(v.KVHeads) * (rowBytes(v.K) + rowBytes(v.V))
	c.add(Kernel{Op: OpMoveSlots}, gridOf(bytes, slotColumns, 1, 1), 0, args.Encode(), buffers[:]...)
	return nil
}

// rowBytes is the bytes of one head of a slot.
func rowBytes[B Buffer](p backend.Plane[B]) int64 {
	return int64(p.Dim) * elementSize(p.Data.DType())
}
