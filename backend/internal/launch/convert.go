package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// ConvertBlocks copies whole blocks between caches of different storage types, in one launch for
// each plane and one for attention scores. A pair with a block outside its cache is skipped. Sync
// reports values that could not be quantized.
func ConvertBlocks[B Buffer](c *Calls, p *backend.ConvertBlocksParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	a := arguments{op: "convert blocks"}
	if p.To.K.Data.DType().Quantized() {
		packBlocks(c, &a, p)
	} else {
		unpackBlocks(c, &a, p)
	}
	if p.FromScores.Set {
		copies := copiesOf(&a, p.Pairs, p.N, &p.From, &p.To)
		from, to := massOf(p.FromScores, p.From.KVHeads, p.From.BlockSize), massOf(p.ToScores, p.To.KVHeads, p.To.BlockSize)
		copies.add(c, &from, &to)
	}
	if a.err != nil {
		c.clear()
	}
	return a.err
}

func packBlocks[B Buffer](c *Calls, a *arguments, p *backend.ConvertBlocksParams[B]) {
	from, to := &p.From, &p.To
	args := abi.PackBlocksArgs{Pairs: a.count("pairs", p.N), FromBlocks: a.count("blocks", from.Blocks), ToBlocks: a.count("blocks", to.Blocks),
		KVHeads: a.heads("KV heads", to.KVHeads), BlockSize: a.count("block size", to.BlockSize)}
	grid, pairs, status := convertGrid(p), p.Pairs.Place(), Place{}
	if a.err == nil {
		status, a.err = c.Status()
	}
	pack := func(name string, of uint32, from, to *backend.Plane[B]) {
		args.Of, args.Dim, args.Storage, args.Flags = of, uint32(to.Dim), abi.Storage(to.Data.DType()), hadamard(*from)^hadamard(*to)
		if p.Saturate {
			args.Flags |= abi.Saturate
		}
		buffers := [abi.PackBlocksBuffers]Place{abi.PackBlocksFrom: plane(a, name, *from), abi.PackBlocksTo: plane(a, name, *to),
			abi.PackBlocksScales: to.Scales.Buf.Place(), abi.PackBlocksPairs: pairs, abi.PackBlocksStatus: status}
		c.add(Kernel{Op: OpPackBlocks.long(p.To.Latent), In: from.Data.DType()}, grid, 0, args.Encode(), buffers[:]...)
	}
	pack("keys", abi.Keys, &from.K, &to.K)
	if !to.Latent {
		pack("values", abi.Values, &from.V, &to.V)
	}
}

func unpackBlocks[B Buffer](c *Calls, a *arguments, p *backend.ConvertBlocksParams[B]) {
	from, to := &p.From, &p.To
	args := abi.UnpackBlocksArgs{Pairs: a.count("pairs", p.N), FromBlocks: a.count("blocks", from.Blocks), ToBlocks: a.count("blocks", to.Blocks),
		KVHeads: a.heads("KV heads", to.KVHeads), BlockSize: a.count("block size", to.BlockSize)}
	grid, pairs := convertGrid(p), p.Pairs.Place()
	unpack := func(name string, from, to *backend.Plane[B]) {
		args.Dim, args.Storage, args.Flags = uint32(to.Dim), abi.Storage(from.Data.DType()), hadamard(*from)^hadamard(*to)
		buffers := [abi.UnpackBlocksBuffers]Place{abi.UnpackBlocksFrom: plane(a, name, *from), abi.UnpackBlocksTo: plane(a, name, *to),
			abi.UnpackBlocksScales: from.Scales.Buf.Place(), abi.UnpackBlocksPairs: pairs}
		c.add(Kernel{Op: OpUnpackBlocks.long(p.To.Latent), In: to.Data.DType()}, grid, 0, args.Encode(), buffers[:]...)
	}
	unpack("keys", &from.K, &to.K)
	if !to.Latent {
		unpack("values", &from.V, &to.V)
	}
}

// convertGrid is the grid over the rows of all blocks. Heads have a block of the grid each, at least: Metal's are theirs.
func convertGrid[B Buffer](p *backend.ConvertBlocksParams[B]) [3]uint32 {
	rows := max(unitRows(p.To.K.Dim), int64(p.To.BlockSize))
	return gridOf(int64(p.N), 1, int64(p.To.KVHeads)*rows, unitRows(p.To.K.Dim))
}
