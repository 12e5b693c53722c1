package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// CopyBlocks copies whole blocks within a cache, or between caches of the same types, in one launch
// for the planes, one for scales and one for attention scores. A pair with a block outside its
// cache is skipped.
func CopyBlocks[B Buffer](c *Calls, p *backend.CopyBlocksParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	a := arguments{op: "copy blocks"}
	copies := copiesOf(&a, p.Pairs, p.N, &p.From, &p.To)
	from, to := copyRegions(&a, &p.From, p.FromScores, p.From.KVHeads, p.From.BlockSize), copyRegions(&a, &p.To, p.ToScores, p.To.KVHeads, p.To.BlockSize)
	if a.err != nil {
		return a.err
	}
	for i := range from {
		if p.ScoresOnly && i < scoresPair {
			continue
		}
		copies.add(c, &from[i], &to[i])
	}
	return nil
}

// blockCopies is what the launches that copy blocks have in common.
type blockCopies struct {
	pairs       Place
	n, from, to uint32 // pairs, and the blocks of both caches
}

func copiesOf[B Buffer](a *arguments, pairs B, n int, from, to *backend.CacheView[B]) blockCopies {
	return blockCopies{pairs.Place(), a.count("pairs", n), a.count("blocks", from.Blocks), a.count("blocks", to.Blocks)}
}

// add launches the copies of one kvPair, which both caches have or none.
func (b *blockCopies) add(c *Calls, from, to *kvPair) {
	if from.empty() {
		return
	}
	args := abi.CopyBlocksArgs{Pairs: b.n, KBytes: from[0].bytes, VBytes: from[1].bytes, FromBlocks: b.from, ToBlocks: b.to}
	op, piece := OpCopyBlocks, int64(vectorBytes)
	if from.narrow() || to.narrow() {
		op, piece = OpCopyBlocksNarrow, narrowBytes
	}
	buffers := [abi.CopyBlocksBuffers]Place{abi.CopyBlocksK: from[0].at, abi.CopyBlocksV: from[1].at,
		abi.CopyBlocksToK: to[0].at, abi.CopyBlocksToV: to[1].at, abi.CopyBlocksPairs: b.pairs}
	grid := gridOf(max(args.KBytes, args.VBytes), blockPieces*piece, int64(b.n), 1)
	c.add(Kernel{Op: op}, grid, 0, args.Encode(), buffers[:]...)
}

// MoveSlots copies single slots within a cache, as if in order. A pair with a slot outside of the
// cache is skipped.
func MoveSlots[B Buffer](c *Calls, p *backend.MoveSlotsParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	v := &p.Cache
	a := arguments{op: "move slots"}
	args := abi.MoveSlotsArgs{Pairs: int64(p.N), Slots: int64(v.Blocks) * int64(v.BlockSize), KVHeads: a.heads("KV heads", v.KVHeads),
		BlockSize: a.count("block size", v.BlockSize)}
	couples := copyRegions(&a, v, p.Scores, 1, 1)
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
