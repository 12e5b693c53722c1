// Code generated from backend/params.go by backend/internal/operandgen. DO NOT EDIT.

package backend

func (u *unwrapper[B]) rows(to *Rows[B], from *Rows[AnyBuffer]) {
	to.Buf = u.buf(from.Buf)
	to.Offset = from.Offset
	to.Stride = from.Stride
}

func (u *unwrapper[B]) plane(to *Plane[B], from *Plane[AnyBuffer]) {
	to.Data = u.buf(from.Data)
	to.Dim = from.Dim
	if from.Scales.Set {
		to.Scales = Some(u.buf(from.Scales.Buf))
	}
	to.Hadamard = from.Hadamard
}

func (u *unwrapper[B]) cacheView(to *CacheView[B], from *CacheView[AnyBuffer]) {
	u.plane(&to.K, &from.K)
	if !from.Latent {
		u.plane(&to.V, &from.V)
	} else {
		to.V.Dim = from.V.Dim
		to.V.Hadamard = from.V.Hadamard
	}
	to.Blocks = from.Blocks
	to.KVHeads = from.KVHeads
	to.BlockSize = from.BlockSize
	to.Latent = from.Latent
}

func (u *unwrapper[B]) ragged(to *Ragged[B], from *Ragged[AnyBuffer]) {
	to.Seqs = from.Seqs
	to.Tokens = from.Tokens
	if from.Table.Set {
		to.Table = Some(u.buf(from.Table.Buf))
	}
	to.TableStride = from.TableStride
	to.ContextLens = u.buf(from.ContextLens)
	if from.QueryOffsets.Set {
		to.QueryOffsets = Some(u.buf(from.QueryOffsets.Buf))
	}
	if from.Views.Set {
		to.Views = Some(u.buf(from.Views.Buf))
	}
	if from.Tree.Set {
		to.Tree = Some(u.buf(from.Tree.Buf))
	}
	to.TreeWords = from.TreeWords
}

func (u *unwrapper[B]) rotaryTable(to *RotaryTable[B], from *RotaryTable[AnyBuffer]) {
	if from.Table.Set {
		to.Table = Some(u.buf(from.Table.Buf))
	}
	to.Positions = from.Positions
	to.Dims = from.Dims
	to.Pairing = from.Pairing
	to.Magnitude = from.Magnitude
}

func (u *unwrapper[B]) mask(to *Mask[B], from *Mask[AnyBuffer]) {
	to.NonCausal = from.NonCausal
	to.Window = from.Window
	to.SinkTokens = from.SinkTokens
	to.Chunk = from.Chunk
	to.Part = from.Part
	to.Residual = from.Residual
	to.SoftCap = from.SoftCap
	if from.ALiBi.Set {
		to.ALiBi = Some(u.buf(from.ALiBi.Buf))
	}
	if from.SinkLogits.Set {
		to.SinkLogits = Some(u.buf(from.SinkLogits.Buf))
	}
}

func (u *unwrapper[B]) outputs(to *Outputs[B], from *Outputs[AnyBuffer]) {
	u.rows(&to.Rows, &from.Rows)
	if from.LSE.Set {
		to.LSE = Some(u.buf(from.LSE.Buf))
	}
	to.LSEOffset = from.LSEOffset
	if from.Scores.Set {
		to.Scores = Some(u.buf(from.Scores.Buf))
	}
}

func (e *erased[B]) Append(s Stream, p AppendParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own AppendParams[B]
	u.cacheView(&own.Cache, &p.Cache)
	own.Tokens = p.Tokens
	u.rows(&own.K, &p.K)
	u.rows(&own.V, &p.V)
	own.Slots = u.buf(p.Slots)
	u.rotaryTable(&own.Rotary, &p.Rotary)
	if p.Positions.Set {
		own.Positions = Some(u.buf(p.Positions.Buf))
	}
	own.QHeads = p.QHeads
	if p.QHeads != 0 {
		u.rows(&own.Q, &p.Q)
	}
	own.Saturate = p.Saturate
	if err := u.ok("append"); err != nil {
		return err
	}
	return e.be.Append(s, own)
}

func (e *erased[B]) Attend(s Stream, p AttendParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own AttendParams[B]
	u.cacheView(&own.Cache, &p.Cache)
	u.ragged(&own.Batch, &p.Batch)
	u.rows(&own.Q, &p.Q)
	own.QHeads = p.QHeads
	own.Scale = p.Scale
	u.mask(&own.Mask, &p.Mask)
	u.outputs(&own.Out, &p.Out)
	own.Plan = p.Plan
	if p.Work.Set {
		own.Work = Some(u.buf(p.Work.Buf))
	}
	if p.Workspace.Set {
		own.Workspace = Some(u.buf(p.Workspace.Buf))
	}
	own.Int8Query = p.Int8Query
	if err := u.ok("attend"); err != nil {
		return err
	}
	return e.be.Attend(s, own)
}

func (e *erased[B]) AttendScores(s Stream, p AttendScoresParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own AttendScoresParams[B]
	u.cacheView(&own.Cache, &p.Cache)
	u.ragged(&own.Batch, &p.Batch)
	u.rows(&own.Q, &p.Q)
	own.QHeads = p.QHeads
	own.Scale = p.Scale
	u.mask(&own.Mask, &p.Mask)
	own.LSE = u.buf(p.LSE)
	own.LSEOffset = p.LSEOffset
	own.Scores = u.buf(p.Scores)
	own.Plan = p.Plan
	if p.Work.Set {
		own.Work = Some(u.buf(p.Work.Buf))
	}
	own.Int8Query = p.Int8Query
	if err := u.ok("attend scores"); err != nil {
		return err
	}
	return e.be.AttendScores(s, own)
}

func (e *erased[B]) Merge(s Stream, p MergeParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own MergeParams[B]
	own.Parts = p.Parts
	own.Tokens = p.Tokens
	own.Heads = p.Heads
	own.Dim = p.Dim
	own.In = u.buf(p.In)
	own.LSE = u.buf(p.LSE)
	u.rows(&own.Out, &p.Out)
	if p.OutLSE.Set {
		own.OutLSE = Some(u.buf(p.OutLSE.Buf))
	}
	if err := u.ok("merge"); err != nil {
		return err
	}
	return e.be.Merge(s, own)
}

func (e *erased[B]) Gather(s Stream, p GatherParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own GatherParams[B]
	u.cacheView(&own.Cache, &p.Cache)
	if p.Table.Set {
		own.Table = Some(u.buf(p.Table.Buf))
	}
	own.TableOffset = p.TableOffset
	own.Begin = p.Begin
	own.Len = p.Len
	if p.K.Set {
		own.K = Some(u.buf(p.K.Buf))
	}
	if p.V.Set {
		own.V = Some(u.buf(p.V.Buf))
	}
	if p.CacheScores.Set {
		own.CacheScores = Some(u.buf(p.CacheScores.Buf))
	}
	if p.Scores.Set {
		own.Scores = Some(u.buf(p.Scores.Buf))
	}
	own.ScoresOffset = p.ScoresOffset
	if err := u.ok("gather"); err != nil {
		return err
	}
	return e.be.Gather(s, own)
}

func (e *erased[B]) ClearScores(s Stream, p ClearScoresParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own ClearScoresParams[B]
	own.Scores = u.buf(p.Scores)
	own.Blocks = p.Blocks
	own.KVHeads = p.KVHeads
	own.BlockSize = p.BlockSize
	own.Slots = u.buf(p.Slots)
	own.N = p.N
	if err := u.ok("clear scores"); err != nil {
		return err
	}
	return e.be.ClearScores(s, own)
}

func (e *erased[B]) CopyBlocks(s Stream, p CopyBlocksParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own CopyBlocksParams[B]
	u.cacheView(&own.From, &p.From)
	u.cacheView(&own.To, &p.To)
	if p.FromScores.Set {
		own.FromScores = Some(u.buf(p.FromScores.Buf))
	}
	if p.ToScores.Set {
		own.ToScores = Some(u.buf(p.ToScores.Buf))
	}
	own.Pairs = u.buf(p.Pairs)
	own.N = p.N
	own.ScoresOnly = p.ScoresOnly
	if err := u.ok("copy blocks"); err != nil {
		return err
	}
	return e.be.CopyBlocks(s, own)
}

func (e *erased[B]) MoveSlots(s Stream, p MoveSlotsParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own MoveSlotsParams[B]
	u.cacheView(&own.Cache, &p.Cache)
	if p.Scores.Set {
		own.Scores = Some(u.buf(p.Scores.Buf))
	}
	own.Pairs = u.buf(p.Pairs)
	own.N = p.N
	if err := u.ok("move slots"); err != nil {
		return err
	}
	return e.be.MoveSlots(s, own)
}

func (e *erased[B]) ConvertBlocks(s Stream, p ConvertBlocksParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own ConvertBlocksParams[B]
	u.cacheView(&own.From, &p.From)
	u.cacheView(&own.To, &p.To)
	if p.FromScores.Set {
		own.FromScores = Some(u.buf(p.FromScores.Buf))
	}
	if p.ToScores.Set {
		own.ToScores = Some(u.buf(p.ToScores.Buf))
	}
	own.Pairs = u.buf(p.Pairs)
	own.N = p.N
	own.Saturate = p.Saturate
	if err := u.ok("convert blocks"); err != nil {
		return err
	}
	return e.be.ConvertBlocks(s, own)
}

func (e *erased[B]) Rotate(s Stream, p RotateParams[AnyBuffer]) error {
	var u unwrapper[B]
	var own RotateParams[B]
	u.cacheView(&own.Cache, &p.Cache)
	own.Slots = u.buf(p.Slots)
	own.Deltas = u.buf(p.Deltas)
	own.N = p.N
	u.rotaryTable(&own.Rotary, &p.Rotary)
	if err := u.ok("rotate"); err != nil {
		return err
	}
	return e.be.Rotate(s, own)
}
