package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// Gather copies one sequence to dense memory [heads, length, dim], in one launch for each plane and
// one for attention scores. Tokens in a block outside the cache are left out.
func Gather[B Buffer](c *Calls, p *backend.GatherParams[B]) error {
	c.clear()
	if p.Len == 0 {
		return nil
	}
	v := &p.Cache
	a := arguments{op: "gather"}
	args := abi.GatherArgs{Begin: int64(p.Begin), Len: int64(p.Len), Blocks: a.count("blocks", v.Blocks),
		KVHeads: a.heads("KV heads", v.KVHeads), BlockSize: a.count("block size", v.BlockSize)}
	var table Place
	if p.Table.Set {
		table = element(p.Table.Buf, p.TableOffset)
	} else {
		args.Block = a.count("table offset", p.TableOffset)
	}
	keys, of := plane(&a, "keys", v.K), plane(&a, "values", *values(v))
	if a.err != nil {
		return a.err
	}
	gatherPlane(c, &args, &v.K, v.K.Dim, keys, table, p.K)
	gatherPlane(c, &args, values(v), v.V.Dim, of, table, p.V)
	if p.Scores.Set { // a plane of one element a row
		gatherAt(c, &args, &backend.Plane[B]{Data: p.CacheScores.Buf, Dim: 1}, 1, p.CacheScores.Buf.Place(), table, backend.F32, element(p.Scores.Buf, p.ScoresOffset))
	}
	return nil
}

// gatherPlane adds the launch for the first dim elements of the rows of a plane, which lies at cache.
func gatherPlane[B Buffer](c *Calls, args *abi.GatherArgs, p *backend.Plane[B], dim int, cache, table Place, to backend.Opt[B]) {
	if to.Set {
		gatherAt(c, args, p, dim, cache, table, to.Buf.DType(), to.Buf.Place())
	}
}

// gatherAt is gatherPlane as a type, to a place.
func gatherAt[B Buffer](c *Calls, args *abi.GatherArgs, p *backend.Plane[B], dim int, cache, table Place, out backend.DType, at Place) {
	args.Dim, args.Row = uint32(dim), uint32(p.Dim)
	in := p.Data.DType()
	grid := gridOf(args.Len, gatherTokens, int64(args.KVHeads), 1)
	constants := with(abi.WithTable, table)
	if in.Quantized() || p.Hadamard && out == backend.F32 {
		quantized := abi.GatherQuantArgs{Block: args.Block, Begin: args.Begin, Len: args.Len, Blocks: args.Blocks, KVHeads: args.KVHeads,
			BlockSize: args.BlockSize, Dim: args.Dim, Row: args.Row, Storage: abi.Storage(in), Flags: hadamard(*p)}
		buffers := [abi.GatherQuantBuffers]Place{abi.GatherQuantCache: cache, abi.GatherQuantScales: wordsOf(*p),
			abi.GatherQuantTable: table, abi.GatherQuantOut: at}
		constants |= wide(out, out, int64(dim), at)
		c.add(Kernel{Op: OpGatherQuant}, grid, constants, quantized.Encode(), buffers[:]...)
		return
	}
	constants |= wide(in, out, int64(dim)|int64(p.Dim), cache, at)
	buffers := [abi.GatherBuffers]Place{abi.GatherCache: cache, abi.GatherTable: table, abi.GatherOut: at}
	c.add(Kernel{Op: OpGather, In: in, Out: out}, grid, constants, args.Encode(), buffers[:]...)
}
