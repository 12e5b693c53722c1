package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// CopyBlocks copies whole blocks within a cache, a launch for the planes and others for
// scales and attention mass. A pair with a block outside it is skipped.
func CopyBlocks[B Buffer](c *Calls, p *backend.CopyBlocksParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	v := &p.Cache
	a := arguments{op: "copy blocks"}
	args := abi.CopyBlocksArgs{Pairs: a.count("pairs", p.N), Blocks: a.count("blocks", v.Blocks)}
	couples := cargoOf(&a, v, p.Mass, v.KVHeads, v.BlockSize)
	if a.err != nil {
		return a.err
	}
	for _, couple := range couples {
		if couple.empty() {
			continue
		}
		args.KBytes, args.VBytes = couple[0].bytes, couple[1].bytes
		op, piece := OpCopyBlocks, int64(vectorBytes)
		if couple.narrow() {
			op, piece = OpCopyBlocksNarrow, narrowBytes
		}
		buffers := [abi.CopyBlocksBuffers]Place{
			abi.CopyBlocksK: couple[0].at, abi.CopyBlocksV: couple[1].at, abi.CopyBlocksPairs: p.Pairs.Place(),
		}
		grid := gridOf(max(args.KBytes, args.VBytes), blockPieces*piece, int64(p.N), 1)
		c.add(Kernel{Op: op}, grid, 0, args.Encode(), buffers[:]...)
	}
	return nil
}

// MoveSlots copies single slots within a cache, with the result of one after
// another. A pair with a slot outside it is skipped.
func MoveSlots[B Buffer](c *Calls, p *backend.MoveSlotsParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	v := &p.Cache
	a := arguments{op: "move slots"}
	args := abi.MoveSlotsArgs{Pairs: int64(p.N), Slots: int64(v.Blocks) * int64(v.BlockSize), KVHeads: a.heads("KV heads", v.KVHeads),
		BlockSize: a.count("block size", v.BlockSize)}
	couples := cargoOf(&a, v, p.Mass, 1, 1)
	if a.err != nil {
		return a.err
	}
	for _, couple := range couples {
		if couple.empty() {
			continue
		}
		args.KBytes, args.VBytes = uint32(couple[0].bytes), uint32(couple[1].bytes)
		op, piece := OpMoveSlots, int64(vectorBytes)
		if couple.narrow() {
			op, piece = OpMoveSlotsNarrow, narrowBytes
		}
		buffers := [abi.MoveSlotsBuffers]Place{
			abi.MoveSlotsK: couple[0].at, abi.MoveSlotsV: couple[1].at, abi.MoveSlotsPairs: p.Pairs.Place(),
		}
		bytes := int64(v.KVHeads) * (couple[0].bytes + couple[1].bytes)
		c.add(Kernel{Op: op}, gridOf(bytes, slotPieces*piece, 1, 1), 0, args.Encode(), buffers[:]...)
	}
	return nil
}
