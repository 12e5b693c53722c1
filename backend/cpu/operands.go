package cpu

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// operands checks that the buffers of one call are live buffers of its device,
// before anything asks for their length, and remembers the first that is not.
type operands struct {
	be  *Backend
	op  string
	err error
}

func (o *operands) buf(name string, b *Buffer) {
	if o.err == nil {
		o.err = o.be.owns(o.op, name, b)
	}
}

func (o *operands) opt(name string, b backend.Opt[*Buffer]) {
	if b.Set {
		o.buf(name, b.Buf)
	}
}

func (o *operands) cache(v backend.CacheView[*Buffer]) {
	o.buf("keys", v.K.Data)
	o.buf("values", v.V.Data)
	o.opt("key scales", v.K.Scales)
	o.opt("key zeros", v.K.Zeros)
	o.opt("value scales", v.V.Scales)
	o.opt("value zeros", v.V.Zeros)
}

func (o *operands) rope(r backend.Rope[*Buffer]) { o.opt("rope table", r.Table) }

// Each method below checks one operation's parameters: first whose the buffers
// are, then whether they fit.

func (o *operands) append(p backend.AppendParams[*Buffer]) error {
	o.cache(p.Cache)
	o.buf("k", p.K.Buf)
	o.buf("v", p.V.Buf)
	o.buf("slots", p.Slots)
	o.rope(p.Rope)
	o.opt("positions", p.Positions)
	if p.QHeads != 0 {
		o.buf("q", p.Q.Buf)
	}
	if o.err != nil {
		return o.err
	}
	return check.Append(o.be.caps, p)
}

func (o *operands) attend(p backend.AttendParams[*Buffer]) error {
	o.cache(p.Cache)
	o.opt("block table", p.Batch.Table)
	o.buf("context lengths", p.Batch.ContextLens)
	o.opt("query offsets", p.Batch.QueryOffsets)
	o.buf("q", p.Q.Buf)
	o.opt("ALiBi slopes", p.Mask.ALiBi)
	o.opt("sink logits", p.Mask.SinkLogits)
	o.buf("out", p.Out.Rows.Buf)
	o.opt("log-sum-exp", p.Out.LSE)
	o.opt("attention mass", p.Out.Mass)
	o.opt("work", p.Work)
	o.opt("workspace", p.Workspace)
	if o.err != nil {
		return o.err
	}
	return check.Attend(o.be.caps, p)
}

func (o *operands) merge(p backend.MergeParams[*Buffer]) error {
	o.buf("in", p.In)
	o.buf("log-sum-exp", p.LSE)
	o.buf("out", p.Out.Buf)
	o.opt("out log-sum-exp", p.OutLSE)
	if o.err != nil {
		return o.err
	}
	return check.Merge(p)
}

func (o *operands) gather(p backend.GatherParams[*Buffer]) error {
	o.cache(p.Cache)
	o.opt("block table", p.Table)
	o.opt("k", p.K)
	o.opt("v", p.V)
	if o.err != nil {
		return o.err
	}
	return check.Gather(o.be.caps, p)
}

func (o *operands) copyBlocks(p backend.CopyBlocksParams[*Buffer]) error {
	o.cache(p.Cache)
	if o.buf("pairs", p.Pairs); o.err != nil {
		return o.err
	}
	return check.CopyBlocks(o.be.caps, p)
}

func (o *operands) moveSlots(p backend.MoveSlotsParams[*Buffer]) error {
	o.cache(p.Cache)
	if o.buf("pairs", p.Pairs); o.err != nil {
		return o.err
	}
	return check.MoveSlots(o.be.caps, p)
}

func (o *operands) rotate(p backend.RotateParams[*Buffer]) error {
	o.cache(p.Cache)
	o.buf("slots", p.Slots)
	o.buf("deltas", p.Deltas)
	if o.rope(p.Rope); o.err != nil {
		return o.err
	}
	return check.Rotate(o.be.caps, p)
}
