package launch

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// attention is what the launches of one call of Attend share.
type attention struct {
	arguments
	format  backend.Format
	work    plan.Work
	args    abi.AttendArgs
	buffers [abi.AttendBuffers]Place
	maps    [MaxMaps]Map // of keys and values
}

// Attend computes softmax(q·K)·V: one launch for each kind of item of the plan, one that merges
// partial results, and one for attention scores. With blocks outside the cache, or lengths beyond a
// sequence's blocks, results are unspecified; nothing outside the operands is accessed.
func Attend[B Buffer](c *Calls, p *backend.AttendParams[B]) error {
	c.clear()
	if p.Batch.Tokens == 0 {
		return nil
	}
	t := attention{arguments: arguments{op: "attend"}}
	if err := bind(&t, p); err != nil {
		return err
	}
	t.buffers[abi.AttendOut], t.args.OutStride = alignedRows(&t.arguments, "out", p.Out.Rows, p.Batch.Tokens, p.QHeads*p.Cache.V.Dim, elementSize(t.format.Act))
	if p.Out.LSE.Set {
		t.buffers[abi.AttendLSE] = element(p.Out.LSE.Buf, p.Out.LSEOffset)
	}
	if t.work.Space.Len > p.Plan.Workspace {
		return backend.ErrArgument{Op: t.op, What: fmt.Sprintf("plan: a workspace of %d elements, its work needs %d", p.Plan.Workspace, t.work.Space.Len)}
	}
	if t.work.Space.Len > 0 {
		t.divide(t.aligned("workspace", p.Workspace.Buf.Place(), 0), p.Out.Scores.Set)
	}
	if t.err != nil {
		return t.err
	}
	t.attend(c)
	if p.Out.Scores.Set {
		t.weigh(c)
	}
	return nil
}

// AttendScores adds to the attention scores of keys, relative to given log-sum-exps, in one launch.
// With blocks outside the cache, or lengths beyond a sequence's blocks, the scores are unspecified;
// nothing outside the operands is accessed.
func AttendScores[B Buffer](c *Calls, p *backend.AttendScoresParams[B]) error {
	c.clear()
	if p.Batch.Tokens == 0 {
		return nil
	}
	t, weighed := attention{arguments: arguments{op: "attend scores"}}, check.Weighed(p)
	if err := bind(&t, &weighed); err != nil {
		return err
	}
	t.buffers[abi.AttendFinalLSE] = element(p.LSE, p.LSEOffset)
	if t.work.Shared.Count > 0 { // kernels ask whether partial rows are there, and this one touches none
		t.buffers[abi.AttendPartial], t.buffers[abi.AttendPartialLSE] = t.buffers[abi.AttendFinalLSE], t.buffers[abi.AttendFinalLSE]
	}
	if t.err != nil {
		return t.err
	}
	t.weigh(c)
	return nil
}

// bind resolves checked parameters, but for what attention writes beside the mass and its workspace.
func bind[B Buffer](t *attention, p *backend.AttendParams[B]) error {
	v, b := &p.Cache, &p.Batch
	t.format = backend.Format{Act: p.Q.Buf.DType(), K: v.K.Data.DType(), V: values(v).Data.DType()}
	call := plan.Call{Op: t.op, QHeads: p.QHeads, KVHeads: v.KVHeads, KDim: v.K.Dim, VDim: v.V.Dim,
		Cache: plan.Cache{Format: t.format, Latent: v.Latent}, Seqs: b.Seqs, Tokens: b.Tokens, See: plan.Visible(&p.Mask, v.BlockSize), Views: b.Views.Set, Mass: p.Plan.Scores}
	if b.Tree.Set {
		call.TreeWords = b.TreeWords
	}
	if err := t.work.Read(p.Plan.Work, &call); err != nil {
		return err
	}
	see := &call.See
	if t.work.Shared.Count > 0 && (!b.Table.Set || b.TableStride < 2) {
		return backend.ErrArgument{Op: t.op, What: "plan: was made for sequences that share blocks; call with the table that it was made for"}
	}
	a := &t.args // assigned to, as are the buffers: values that are built and copied cost 20 ns
	a.Seqs, a.Tokens = t.count("sequences", b.Seqs), t.count("tokens", b.Tokens)
	a.QHeads, a.KVHeads = t.count("query heads", p.QHeads), t.heads("KV heads", v.KVHeads)
	a.KDim, a.VDim = uint32(v.K.Dim), uint32(v.V.Dim)
	a.Blocks, a.BlockSize, a.TableStride = t.count("blocks", v.Blocks), t.count("block size", v.BlockSize), 1
	a.Window, a.SinkTokens, a.Recent = uint32(see.Window), uint32(see.SinkTokens), uint32(see.Residual)
	a.Chunk, a.TreeWords = uint32(see.Chunk), uint32(call.TreeWords)
	a.Scale, a.Softcap = p.Scale, p.Mask.SoftCap
	a.KStorage, a.VStorage = abi.Storage(t.format.K), abi.Storage(t.format.V)
	a.PartialRows, a.SharedAt, a.SharedRows = int64(t.work.PartialRows), t.work.Shared.First, t.work.Shared.Count
	if see.NonCausal {
		t.args.Flags = abi.Noncausal
	}
	if see.Part == backend.OlderKeys {
		t.args.Flags = abi.Older
	}
	if b.Table.Set {
		t.args.TableStride = t.count("table stride", b.TableStride)
	}
	at := &t.buffers
	at[abi.AttendK], at[abi.AttendV] = plane(&t.arguments, "keys", v.K), plane(&t.arguments, "values", *values(v))
	at[abi.AttendKscales], at[abi.AttendVscales] = optional(v.K.Scales), optional(values(v).Scales)
	at[abi.AttendTable], at[abi.AttendContextLens], at[abi.AttendQueryOffsets] = optional(b.Table), b.ContextLens.Place(), optional(b.QueryOffsets)
	at[abi.AttendViews], at[abi.AttendTree] = optional(b.Views), optional(b.Tree)
	at[abi.AttendWork], at[abi.AttendMass] = p.Work.Buf.Place(), optional(p.Out.Scores)
	at[abi.AttendALiBi], at[abi.AttendSinks] = optional(p.Mask.ALiBi), optional(p.Mask.SinkLogits)
	if t.work.Kinds[plan.Wide].Count > 0 {
		rows := uint64(v.Blocks) * uint64(v.KVHeads) * uint64(v.BlockSize)
		if rows > math.MaxInt32 && t.err == nil {
			t.err = backend.ErrUnsupported{Op: t.op, Why: fmt.Sprintf("a plane of %d rows, copies of boxes count to %d", rows, math.MaxInt32)}
		}
		t.maps = [MaxMaps]Map{{at[abi.AttendK], rows, a.KDim, t.format.K}, {at[abi.AttendV], rows, a.VDim, t.format.V}}
		if v.Latent { // one plane
			t.maps[1] = t.maps[0]
		}
	}
	t.buffers[abi.AttendQ], t.args.QStride = alignedRows(&t.arguments, "q", p.Q, b.Tokens, p.QHeads*v.K.Dim, elementSize(t.format.Act))
	return nil
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

// attend adds the calls that make the rows, in the order in which one needs the other's results.
func (t *attention) attend(c *Calls) {
	constants := t.constants()
	for kind := range t.work.Kinds {
		if list := t.work.Kinds[kind]; list.Count > 0 {
			t.add(c, Attention(plan.Kind(kind), t.format, int(t.args.KDim), int(t.args.VDim)), list, constants)
			if plan.Kind(kind) == plan.Wide {
				c.mapped(t.maps[:]...)
			}
		}
	}
	t.add(c, Kernel{Op: OpAttendMerge, In: t.format.Act}, t.work.Merges, constants)
}

// weigh adds the call that adds to the attention scores, once the log-sum-exps are final.
func (t *attention) weigh(c *Calls) {
	t.add(c, attentionMass(t.format, int(t.args.KDim), int(t.args.VDim)), t.work.All, t.constants())
}

// constants are the same for each call of an operation.
func (t *attention) constants() uint32 {
	return constant(abi.Paged, t.args.TableStride > 1) | constant(abi.WithSoftcap, t.args.Softcap > 0) |
		with(abi.WithTable, t.buffers[abi.AttendTable]) | with(abi.WithOffsets, t.buffers[abi.AttendQueryOffsets]) |
		with(abi.WithALiBi, t.buffers[abi.AttendALiBi]) | with(abi.WithSinks, t.buffers[abi.AttendSinks]) |
		with(abi.WithLSE, t.buffers[abi.AttendLSE]) | with(abi.WithFinalLSE, t.buffers[abi.AttendFinalLSE]) |
		with(abi.WithPartials, t.buffers[abi.AttendPartial]) |
		with(abi.WithViews, t.buffers[abi.AttendViews]) | with(abi.WithTree, t.buffers[abi.AttendTree])
}

// add adds a call for a list of items, if it has any.
func (t *attention) add(c *Calls, k Kernel, list plan.List, constants uint32) {
	if list.Count == 0 {
		return
	}
	t.args.First, t.args.Items = list.First, list.Count
	c.add(k, [3]uint32{list.Count, t.args.KVHeads, 1}, constants, t.args.Encode(), t.buffers[:]...)
}
