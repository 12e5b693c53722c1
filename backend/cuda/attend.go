//go:build linux && cgo && !nocuda

package cuda

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// attention is one call of Attend: what its launches share, and the kernels that
// it needs, nil where it does not.
type attention struct {
	args        abi.AttendArgs
	buffers     [abi.AttendBuffers]driver.Ptr
	work        plan.Work
	kinds       [plan.Kinds]*kernel
	merge, mass *kernel
}

// Attend computes softmax(q·K)·V: a launch for each kind of item that the plan has,
// one that merges the tiles of several parts, and one for the attention mass. Blocks
// outside the cache and lengths beyond a sequence's blocks lead to results that are
// unspecified, never outside the operands.
func (be *Backend) Attend(s backend.Stream, p backend.AttendParams[*Buffer]) error {
	ops, own, err := be.begin("attend", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Attend(p); err != nil || p.Batch.Tokens == 0 {
		return err
	}
	var c attention
	if err := c.bind(&p); err != nil {
		return err
	}
	if err := c.find(be, &p); err != nil {
		return err
	}
	return be.failed("attend", c.launch(own))
}

// bind resolves checked parameters.
func (c *attention) bind(p *backend.AttendParams[*Buffer]) (err error) {
	v, b, see := &p.Cache, &p.Batch, plan.Visible(p.Mask.NonCausal, p.Mask.Window, p.Mask.SinkTokens)
	c.work, err = plan.Read(p.Plan.Work, plan.Call{QHeads: p.QHeads, KVHeads: v.KVHeads, KDim: v.K.Dim, VDim: v.V.Dim,
		Format: formatOf(p), Seqs: b.Seqs, Tokens: b.Tokens, See: see, Mass: p.Plan.Mass})
	if err != nil {
		return err
	}
	if c.work.Space.Len > p.Plan.Workspace {
		return backend.ErrShape{Op: "attend", What: fmt.Sprintf("plan: a workspace of %d elements, its work needs %d", p.Plan.Workspace, c.work.Space.Len)}
	}
	a := arguments{op: "attend"}
	c.args = abi.AttendArgs{
		Seqs: a.count("sequences", b.Seqs), Tokens: a.count("tokens", b.Tokens),
		QHeads: a.count("query heads", p.QHeads), KVHeads: a.heads("KV heads", v.KVHeads), KDim: uint32(v.K.Dim), VDim: uint32(v.V.Dim),
		Blocks: a.count("blocks", v.Blocks), BlockSize: a.count("block size", v.BlockSize), TableStride: 1,
		Window: uint32(see.Window), SinkTokens: uint32(see.SinkTokens), Scale: p.Scale, Softcap: p.Mask.SoftCap,
		PartialRows: int64(c.work.PartialRows),
	}
	if see.NonCausal {
		c.args.Flags = abi.Noncausal
	}
	if b.Table.Set {
		c.args.TableStride = a.count("table stride", b.TableStride)
	}
	c.buffers = [abi.AttendBuffers]driver.Ptr{
		abi.AttendK: a.plane("keys", v.K), abi.AttendV: a.plane("values", v.V), abi.AttendTable: address(b.Table),
		abi.AttendContextLens: b.ContextLens.ptr, abi.AttendQueryOffsets: address(b.QueryOffsets), abi.AttendWork: p.Work.Buf.ptr,
		abi.AttendALiBi: address(p.Mask.ALiBi), abi.AttendSinks: address(p.Mask.SinkLogits), abi.AttendMass: address(p.Out.Mass),
	}
	c.buffers[abi.AttendQ], c.args.QStride = a.alignedRows("q", p.Q, b.Tokens, p.QHeads*v.K.Dim)
	c.buffers[abi.AttendOut], c.args.OutStride = a.alignedRows("out", p.Out.Rows, b.Tokens, p.QHeads*v.V.Dim)
	if p.Out.LSE.Set {
		c.buffers[abi.AttendLSE] = element(p.Out.LSE.Buf, p.Out.LSEOffset)
	}
	if c.work.Space.Len > 0 {
		c.divide(a.aligned("workspace", p.Workspace.Buf.ptr, 0), p.Out.Mass.Set)
	}
	return a.err
}

// divide lays the workspace out, which starts at base.
func (c *attention) divide(base driver.Ptr, withMass bool) {
	at := func(element int) driver.Ptr { return base + driver.Ptr(4*element) }
	if withMass {
		c.buffers[abi.AttendFinalLSE] = at(c.work.Space.FinalLSE)
	}
	if c.work.PartialRows > 0 {
		c.buffers[abi.AttendPartialLSE], c.buffers[abi.AttendPartial] = at(c.work.Space.PartialLSE), at(c.work.Space.Partial)
	}
}

// find looks up the kernels, before any of them is launched.
func (c *attention) find(be *Backend, p *backend.AttendParams[*Buffer]) (err error) {
	f, l := formatOf(p), contiguous
	if c.args.TableStride > 1 {
		l = paged
	}
	for kind, list := range c.work.Kinds {
		if list.Count == 0 {
			continue
		}
		if c.kinds[kind], err = be.kernel("attend", attendKernel(plan.Kind(kind), f, p.Cache.K.Dim, p.Cache.V.Dim, l)); err != nil {
			return err
		}
	}
	if c.work.Merges.Count > 0 {
		if c.merge, err = be.kernel("attend", kernelID{op: attendMergeOp, in: f.Act}); err != nil {
			return err
		}
	}
	if p.Out.Mass.Set {
		c.mass, err = be.kernel("attend", kernelID{op: attendMassOp, in: f.Act, out: f.K, kDim: int32(p.Cache.K.Dim), vDim: int32(p.Cache.V.Dim)})
	}
	return err
}

// launch enqueues the kernels.
func (c *attention) launch(s *stream) error {
	for kind, list := range c.work.Kinds {
		if err := c.run(s, c.kinds[kind], list); err != nil {
			return err
		}
	}
	if err := c.run(s, c.merge, c.work.Merges); err != nil {
		return err
	}
	return c.run(s, c.mass, c.work.All)
}

// run enqueues one kernel over a list of items and all KV heads.
func (c *attention) run(s *stream, k *kernel, list plan.List) error {
	if k == nil {
		return nil
	}
	c.args.First, c.args.Items = list.First, list.Count
	return s.launch(k, [3]uint32{list.Count, c.args.KVHeads, 1}, c.args.Encode(), c.buffers[:]...)
}

// formatOf is the types of a call.
func formatOf(p *backend.AttendParams[*Buffer]) backend.Format {
	return backend.Format{Act: p.Q.Buf.dt, K: p.Cache.K.Data.dt, V: p.Cache.V.Data.dt}
}
