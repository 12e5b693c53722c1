// Package operands checks the parameters of every operation, once for all
// devices: first that each buffer is a live one of the device, before anything
// asks for its length, and then, with package check, that they fit.
package operands

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// Owner is a device, as far as its buffers are concerned. It is a type parameter
// and no interface value, so that a check allocates nothing.
type Owner[B backend.Buffer] interface {
	// Owns reports whether b is a live buffer of the device, as an error that names
	// the operation and the operand.
	Owns(op, name string, b B) error
	Caps() backend.Caps
}

// Operands is the check of one call. It remembers the first buffer that is not
// the device's. Parameters are hundreds of bytes: the checks get pointers to them, which
// they do not retain, and are called directly, so that both stay on the caller's stack.
type Operands[B backend.Buffer, O Owner[B]] struct {
	Owner O
	Op    string
	Err   error
}

// Buf checks one buffer.
func (o *Operands[B, O]) Buf(name string, b B) {
	if o.Err == nil {
		o.Err = o.Owner.Owns(o.Op, name, b)
	}
}

func (o *Operands[B, O]) opt(name string, b backend.Opt[B]) {
	if b.Set {
		o.Buf(name, b.Buf)
	}
}

func (o *Operands[B, O]) cache(v *backend.CacheView[B]) {
	o.Buf("keys", v.K.Data)
	o.Buf("values", v.V.Data)
	o.opt("key scales", v.K.Scales)
	o.opt("value scales", v.V.Scales)
}

func (o *Operands[B, O]) rope(r backend.Rope[B]) { o.opt("rope table", r.Table) }

// Append checks the operands of Backend.Append.
func (o *Operands[B, O]) Append(p *backend.AppendParams[B]) error {
	o.cache(&p.Cache)
	o.Buf("k", p.K.Buf)
	o.Buf("v", p.V.Buf)
	o.Buf("slots", p.Slots)
	o.rope(p.Rope)
	o.opt("positions", p.Positions)
	if p.QHeads != 0 {
		o.Buf("q", p.Q.Buf)
	}
	if o.Err != nil {
		return o.Err
	}
	caps := o.Owner.Caps()
	return check.Append(&caps, p)
}

// Attend checks the operands of Backend.Attend.
func (o *Operands[B, O]) Attend(p *backend.AttendParams[B]) error {
	o.cache(&p.Cache)
	o.opt("block table", p.Batch.Table)
	o.Buf("context lengths", p.Batch.ContextLens)
	o.opt("query offsets", p.Batch.QueryOffsets)
	o.Buf("q", p.Q.Buf)
	o.opt("ALiBi slopes", p.Mask.ALiBi)
	o.opt("sink logits", p.Mask.SinkLogits)
	o.Buf("out", p.Out.Rows.Buf)
	o.opt("log-sum-exp", p.Out.LSE)
	o.opt("attention mass", p.Out.Mass)
	o.opt("work", p.Work)
	o.opt("workspace", p.Workspace)
	if o.Err != nil {
		return o.Err
	}
	caps := o.Owner.Caps()
	return check.Attend(&caps, p)
}

// Merge checks the operands of Backend.Merge.
func (o *Operands[B, O]) Merge(p *backend.MergeParams[B]) error {
	o.Buf("in", p.In)
	o.Buf("log-sum-exp", p.LSE)
	o.Buf("out", p.Out.Buf)
	o.opt("out log-sum-exp", p.OutLSE)
	if o.Err != nil {
		return o.Err
	}
	return check.Merge(p)
}

// Gather checks the operands of Backend.Gather.
func (o *Operands[B, O]) Gather(p *backend.GatherParams[B]) error {
	o.cache(&p.Cache)
	o.opt("block table", p.Table)
	o.opt("k", p.K)
	o.opt("v", p.V)
	if o.Err != nil {
		return o.Err
	}
	caps := o.Owner.Caps()
	return check.Gather(&caps, p)
}

// CopyBlocks checks the operands of Backend.CopyBlocks.
func (o *Operands[B, O]) CopyBlocks(p *backend.CopyBlocksParams[B]) error {
	o.cache(&p.Cache)
	o.opt("attention mass", p.Mass)
	if o.Buf("pairs", p.Pairs); o.Err != nil {
		return o.Err
	}
	caps := o.Owner.Caps()
	return check.CopyBlocks(&caps, p)
}

// MoveSlots checks the operands of Backend.MoveSlots.
func (o *Operands[B, O]) MoveSlots(p *backend.MoveSlotsParams[B]) error {
	o.cache(&p.Cache)
	o.opt("attention mass", p.Mass)
	if o.Buf("pairs", p.Pairs); o.Err != nil {
		return o.Err
	}
	caps := o.Owner.Caps()
	return check.MoveSlots(&caps, p)
}

// ConvertBlocks checks the operands of Backend.ConvertBlocks.
func (o *Operands[B, O]) ConvertBlocks(p *backend.ConvertBlocksParams[B]) error {
	o.cache(&p.From)
	o.cache(&p.To)
	if o.Buf("pairs", p.Pairs); o.Err != nil {
		return o.Err
	}
	caps := o.Owner.Caps()
	return check.ConvertBlocks(&caps, p)
}

// Rotate checks the operands of Backend.Rotate.
func (o *Operands[B, O]) Rotate(p *backend.RotateParams[B]) error {
	o.cache(&p.Cache)
	o.Buf("slots", p.Slots)
	o.Buf("deltas", p.Deltas)
	if o.rope(p.Rope); o.Err != nil {
		return o.Err
	}
	caps := o.Owner.Caps()
	return check.Rotate(&caps, p)
}
