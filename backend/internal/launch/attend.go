package launch

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// attention is what the launches of one call of Attend share.
type attention struct {
	arguments
	format  backend.Format
	work    plan.Work
	args    abi.AttendArgs
	buffers [abi.AttendBuffers]Place
}

// Attend computes softmax(q·K)·V: a launch for each kind of item that the plan has,
// one that merges the tiles of several parts, and one for the attention mass. Blocks
// outside the cache and lengths beyond a sequence's blocks lead to results that are
// unspecified, never outside the operands.
func Attend[B Buffer](c *Calls, p *backend.AttendParams[B]) error {
	c.clear()
	if p.Batch.Tokens == 0 {
		return nil
	}
	t := attention{arguments: arguments{op: "attend"}}
	if err := bind(&t, p); err != nil {
		return err
	}
	t.launch(c, p.Out.Mass.Set)
	return nil
}

// bind resolves checked parameters.
func bind[B Buffer](t *attention, p *backend.AttendParams[B]) (err error) {
	v, b, see := &p.Cache, &p.Batch, plan.Visible(&p.Mask, p.Cache.BlockSize)
	t.format = backend.Format{Act: p.Q.Buf.DType(), K: v.K.Data.DType(), V: v.V.Data.DType()}
	t.work, err = plan.Read(p.Plan.Work, plan.Call{QHeads: p.QHeads, KVHeads: v.KVHeads, KDim: v.K.Dim, VDim: v.V.Dim,
		Format: t.format, Seqs: b.Seqs, Tokens: b.Tokens, See: see, Mass: p.Plan.Mass})
	if err != nil {
		return err
	}
	if t.work.Shared.Count > 0 && (!b.Table.Set || b.TableStride < 2) {
		return backend.ErrShape{Op: "attend", What: "plan: was made for sequences that share blocks; call with the table that it was made for"}
	}
	if t.work.Space.Len > p.Plan.Workspace {
		return backend.ErrShape{Op: "attend", What: fmt.Sprintf("plan: a workspace of %d elements, its work needs %d", p.Plan.Workspace, t.work.Space.Len)}
	}
	t.args = abi.AttendArgs{
		Seqs: t.count("sequences", b.Seqs), Tokens: t.count("tokens", b.Tokens),
		QHeads: t.count("query heads", p.QHeads), KVHeads: t.heads("KV heads", v.KVHeads), KDim: uint32(v.K.Dim), VDim: uint32(v.V.Dim),
		Blocks: t.count("blocks", v.Blocks), BlockSize: t.count("block size", v.BlockSize), TableStride: 1,
		Window: uint32(see.Window), SinkTokens: uint32(see.SinkTokens), Scale: p.Scale, Softcap: p.Mask.SoftCap,
		PartialRows: int64(t.work.PartialRows), KStorage: abi.Storage(t.format.K), VStorage: abi.Storage(t.format.V),
		SharedAt: t.work.Shared.First, SharedRows: t.work.Shared.Count, Recent: uint32(see.Recent),
	}
	if see.NonCausal {
		t.args.Flags = abi.Noncausal
	}
	if see.Part == backend.OlderKeys {
		t.args.Flags = abi.Older
	}
	if b.Table.Set {
		t.args.TableStride = t.count("table stride", b.TableStride)
	}
	t.buffers = [abi.AttendBuffers]Place{
		abi.AttendK: plane(&t.arguments, "keys", v.K), abi.AttendV: plane(&t.arguments, "values", v.V), abi.AttendTable: optional(b.Table),
		abi.AttendContextLens: b.ContextLens.Place(), abi.AttendQueryOffsets: optional(b.QueryOffsets), abi.AttendWork: p.Work.Buf.Place(),
		abi.AttendALiBi: optional(p.Mask.ALiBi), abi.AttendSinks: optional(p.Mask.SinkLogits), abi.AttendMass: optional(p.Out.Mass),
		abi.AttendKscales: optional(v.K.Scales), abi.AttendVscales: optional(v.V.Scales),
	}
	t.buffers[abi.AttendQ], t.args.QStride = alignedRows(&t.arguments, "q", p.Q, b.Tokens, p.QHeads*v.K.Dim)
	t.buffers[abi.AttendOut], t.args.OutStride = alignedRows(&t.arguments, "out", p.Out.Rows, b.Tokens, p.QHeads*v.V.Dim)
	if p.Out.LSE.Set {
		t.buffers[abi.AttendLSE] = element(p.Out.LSE.Buf, p.Out.LSEOffset)
	}
	if t.work.Space.Len > 0 {
		t.divide(t.aligned("workspace", p.Workspace.Buf.Place(), 0), p.Out.Mass.Set)
	}
	return t.err
}

// divide lays the workspace out, which starts at base.
func (t *attention) divide(base Place, withMass bool) {
	at := func(element int) Place { return base.Plus(4 * int64(element)) }
	if withMass {
		t.buffers[abi.AttendFinalLSE] = at(t.work.Space.FinalLSE)
	}
	if t.work.PartialRows > 0 {
		t.buffers[abi.AttendPartialLSE], t.buffers[abi.AttendPartial] = at(t.work.Space.PartialLSE), at(t.work.Space.Partial)
	}
}

// launch adds the calls, in the order in which one needs the other's results.
func (t *attention) launch(c *Calls, withMass bool) {
	kDim, vDim, layout := int(t.args.KDim), int(t.args.VDim), Contiguous
	if t.args.TableStride > 1 {
		layout = Paged
	}
	constants := constant(abi.Paged, layout == Paged) | constant(abi.WithSoftcap, t.args.Softcap > 0) |
		with(abi.WithTable, t.buffers[abi.AttendTable]) | with(abi.WithOffsets, t.buffers[abi.AttendQueryOffsets]) |
		with(abi.WithALiBi, t.buffers[abi.AttendALiBi]) | with(abi.WithSinks, t.buffers[abi.AttendSinks]) |
		with(abi.WithLSE, t.buffers[abi.AttendLSE]) | with(abi.WithFinalLSE, t.buffers[abi.AttendFinalLSE]) |
		with(abi.WithPartials, t.buffers[abi.AttendPartial])
	add := func(k Kernel, list plan.List) {
		if list.Count == 0 {
			return
		}
		t.args.First, t.args.Items = list.First, list.Count
		c.add(k, [3]uint32{list.Count, t.args.KVHeads, 1}, constants, t.args.Encode(), t.buffers[:]...)
	}
	for kind, list := range t.work.Kinds {
		add(Attention(plan.Kind(kind), t.format, kDim, vDim, layout), list)
	}
	add(Kernel{Op: OpAttendMerge, In: t.format.Act}, t.work.Merges)
	if withMass {
		add(attentionMass(t.format, kDim, vDim), t.work.All)
	}
}
