// Code generated from backend/params.go by backend/internal/operandgen. DO NOT EDIT.

package check

import "github.com/ferrumkv/ferrumkv/backend"

func (o *Operands[B, O]) cacheView(p *backend.CacheView[B]) {
	o.Buf("keys", p.K.Data)
	o.opt("key scales", p.K.Scales)
	if !p.Latent {
		o.Buf("values", p.V.Data)
		o.opt("value scales", p.V.Scales)
	}
}

func (o *Operands[B, O]) ragged(p *backend.Ragged[B]) {
	o.opt("block table", p.Table)
	o.Buf("context lengths", p.ContextLens)
	o.opt("query offsets", p.QueryOffsets)
	o.opt("views", p.Views)
	o.opt("tree", p.Tree)
}

func (o *Operands[B, O]) rotaryTable(p *backend.RotaryTable[B]) {
	o.opt("rope table", p.Table)
}

func (o *Operands[B, O]) mask(p *backend.Mask[B]) {
	o.opt("ALiBi slopes", p.ALiBi)
	o.opt("sink logits", p.SinkLogits)
}

func (o *Operands[B, O]) outputs(p *backend.Outputs[B]) {
	o.Buf("out", p.Rows.Buf)
	o.opt("log-sum-exp", p.LSE)
	o.opt("attention scores", p.Scores)
}

// Append checks the operands of Backend.Append.
func (o *Operands[B, O]) Append(p *backend.AppendParams[B]) error {
	known := o.Owner.Known()
	if known.HasAppend(p) {
		return nil
	}
	o.cacheView(&p.Cache)
	o.Buf("k", p.K.Buf)
	o.Buf("v", p.V.Buf)
	o.Buf("slots", p.Slots)
	o.rotaryTable(&p.Rotary)
	o.opt("positions", p.Positions)
	if p.QHeads != 0 {
		o.Buf("q", p.Q.Buf)
	}
	if o.Err != nil {
		return o.Err
	}
	if err := Append(o.Owner.Caps(), p); err != nil {
		return err
	}
	known.AddAppend(p)
	return nil
}

// Attend checks the operands of Backend.Attend.
func (o *Operands[B, O]) Attend(p *backend.AttendParams[B]) error {
	known := o.Owner.Known()
	if known.HasAttend(p) {
		return nil
	}
	o.cacheView(&p.Cache)
	o.ragged(&p.Batch)
	o.Buf("q", p.Q.Buf)
	o.mask(&p.Mask)
	o.outputs(&p.Out)
	o.opt("work", p.Work)
	o.opt("workspace", p.Workspace)
	if o.Err != nil {
		return o.Err
	}
	if err := Attend(o.Owner.Caps(), p); err != nil {
		return err
	}
	known.AddAttend(p)
	return nil
}

// AttendScores checks the operands of Backend.AttendScores.
func (o *Operands[B, O]) AttendScores(p *backend.AttendScoresParams[B]) error {
	known := o.Owner.Known()
	if known.HasAttendScores(p) {
		return nil
	}
	o.cacheView(&p.Cache)
	o.ragged(&p.Batch)
	o.Buf("q", p.Q.Buf)
	o.mask(&p.Mask)
	o.Buf("log-sum-exp", p.LSE)
	o.Buf("attention scores", p.Scores)
	o.opt("work", p.Work)
	if o.Err != nil {
		return o.Err
	}
	if err := AttendScores(o.Owner.Caps(), p); err != nil {
		return err
	}
	known.AddAttendScores(p)
	return nil
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
	return Merge(o.Owner.Caps(), p)
}

// Gather checks the operands of Backend.Gather.
func (o *Operands[B, O]) Gather(p *backend.GatherParams[B]) error {
	o.cacheView(&p.Cache)
	o.opt("block table", p.Table)
	o.opt("k", p.K)
	o.opt("v", p.V)
	o.opt("cache scores", p.CacheScores)
	o.opt("scores", p.Scores)
	if o.Err != nil {
		return o.Err
	}
	return Gather(o.Owner.Caps(), p)
}

// ClearScores checks the operands of Backend.ClearScores.
func (o *Operands[B, O]) ClearScores(p *backend.ClearScoresParams[B]) error {
	o.Buf("attention scores", p.Scores)
	o.Buf("slots", p.Slots)
	if o.Err != nil {
		return o.Err
	}
	return ClearScores(o.Owner.Caps(), p)
}

// CopyBlocks checks the operands of Backend.CopyBlocks.
func (o *Operands[B, O]) CopyBlocks(p *backend.CopyBlocksParams[B]) error {
	o.cacheView(&p.From)
	o.cacheView(&p.To)
	o.opt("from scores", p.FromScores)
	o.opt("to scores", p.ToScores)
	o.Buf("pairs", p.Pairs)
	if o.Err != nil {
		return o.Err
	}
	return CopyBlocks(o.Owner.Caps(), p)
}

// MoveSlots checks the operands of Backend.MoveSlots.
func (o *Operands[B, O]) MoveSlots(p *backend.MoveSlotsParams[B]) error {
	o.cacheView(&p.Cache)
	o.opt("attention scores", p.Scores)
	o.Buf("pairs", p.Pairs)
	if o.Err != nil {
		return o.Err
	}
	return MoveSlots(o.Owner.Caps(), p)
}

// ConvertBlocks checks the operands of Backend.ConvertBlocks.
func (o *Operands[B, O]) ConvertBlocks(p *backend.ConvertBlocksParams[B]) error {
	o.cacheView(&p.From)
	o.cacheView(&p.To)
	o.opt("from scores", p.FromScores)
	o.opt("to scores", p.ToScores)
	o.Buf("pairs", p.Pairs)
	if o.Err != nil {
		return o.Err
	}
	return ConvertBlocks(o.Owner.Caps(), p)
}

// Rotate checks the operands of Backend.Rotate.
func (o *Operands[B, O]) Rotate(p *backend.RotateParams[B]) error {
	o.cacheView(&p.Cache)
	o.Buf("slots", p.Slots)
	o.Buf("deltas", p.Deltas)
	o.rotaryTable(&p.Rotary)
	if o.Err != nil {
		return o.Err
	}
	return Rotate(o.Owner.Caps(), p)
}
