//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// gatherTokens is how many tokens of a head a block of the grid copies at a time.
const gatherTokens = 32

// Gather materialises one sequence as [heads, length, dim], a launch for each plane.
// Tokens in a block outside the cache are left out.
func (be *Backend) Gather(s backend.Stream, p backend.GatherParams[*Buffer]) error {
	ops, own, err := be.begin("gather", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Gather(p); err != nil || p.Len == 0 {
		return err
	}
	v := &p.Cache
	a := arguments{op: "gather"}
	args := abi.GatherArgs{Begin: int64(p.Begin), Len: int64(p.Len), Blocks: a.count("blocks", v.Blocks),
		KVHeads: a.heads("KV heads", v.KVHeads), BlockSize: a.count("block size", v.BlockSize)}
	var table driver.Ptr
	if p.Table.Set {
		table = element(p.Table.Buf, p.TableOffset)
	} else {
		args.Block = a.count("table offset", p.TableOffset)
	}
	keys, values := a.plane("keys", v.K), a.plane("values", v.V)
	if a.err != nil {
		return a.err
	}
	toK, err := be.gatherKernel(v.K, p.K)
	if err != nil {
		return err
	}
	toV, err := be.gatherKernel(v.V, p.V)
	if err != nil {
		return err
	}
	grid := gridOf(int64(p.Len), gatherTokens, int64(v.KVHeads), 1)
	if toK != nil {
		args.Dim = uint32(v.K.Dim)
		if err := own.launch(toK, grid, args.Encode(), keys, table, p.K.Buf.ptr); err != nil {
			return be.failed("gather", err)
		}
	}
	if toV == nil {
		return nil
	}
	args.Dim = uint32(v.V.Dim)
	return be.failed("gather", own.launch(toV, grid, args.Encode(), values, table, p.V.Buf.ptr))
}

// gatherKernel is the kernel for a plane; nil where it is not wanted.
func (be *Backend) gatherKernel(from backend.Plane[*Buffer], to backend.Opt[*Buffer]) (*kernel, error) {
	if !to.Set {
		return nil, nil
	}
	return be.kernel("gather", kernelID{op: gatherOp, in: from.Data.dt, out: to.Buf.dt})
}
