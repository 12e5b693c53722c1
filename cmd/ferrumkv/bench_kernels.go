package main

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// call prepares a kernel: what it returns runs it once, on the next layer.
func (r *rig) call(k kernel) (func() error, error) {
	switch k.name {
	case "append":
		return r.appendCall()
	case "prefill":
		return r.attendCall(min(prefillTokens, r.Context))
	}
	return r.attendCall(1)
}

// inputBytes is about what the operands of the kernels take.
func (s shape) inputBytes(ks []kernel) (int64, error) {
	_, act, err := s.storage()
	total := int64(0)
	for _, k := range ks {
		n := 2 * s.Batch * prefillTokens * s.QHeads * s.HeadDim // queries and output
		if k.copy {
			n = 2 * s.Batch * s.Context * s.width() // new keys and values
		}
		bytes, _ := act.Size(n)
		total += bytes
	}
	return total, err
}

// attendCall is attention of the last queries tokens of every sequence.
func (r *rig) attendCall(queries int) (func() error, error) {
	contexts, lens, offsets := make([]uint32, r.Batch), make([]uint32, r.Batch), make([]uint32, r.Batch+1)
	for i := range r.Batch {
		contexts[i], lens[i], offsets[i+1] = uint32(r.Context), uint32(queries), uint32((i+1)*queries)
	}
	plan, err := r.be.PlanAttend(backend.AttendShape{
		QHeads: r.QHeads, KVHeads: r.KVHeads, KDim: r.HeadDim, VDim: r.HeadDim, BlockSize: r.slots(),
		Format: backend.Format{Act: r.act, K: r.kv, V: r.kv}, ContextLens: contexts, QueryLens: lens,
	})
	if err != nil {
		return nil, err
	}
	tokens := r.Batch * queries
	p := backend.AttendParams[backend.AnyBuffer]{
		QHeads: r.QHeads, Scale: float32(1 / math.Sqrt(float64(r.HeadDim))), Plan: plan,
		Batch: backend.Ragged[backend.AnyBuffer]{Seqs: r.Batch, Tokens: tokens, Table: backend.Some(r.table), TableStride: r.blocksPerSeq()},
	}
	if p.Batch.ContextLens, err = uploaded(r, backend.U32, contexts); err != nil {
		return nil, err
	}
	if queries > 1 {
		b, err := uploaded(r, backend.U32, offsets)
		if err != nil {
			return nil, err
		}
		p.Batch.QueryOffsets = backend.Some(b)
	}
	for _, rows := range []*backend.Rows[backend.AnyBuffer]{&p.Q, &p.Out.Rows} {
		if rows.Buf, err = r.filled(r.act, tokens*r.QHeads*r.HeadDim); err != nil {
			return nil, err
		}
	}
	if len(plan.Work) > 0 {
		b, err := uploaded(r, backend.U32, plan.Work)
		if err != nil {
			return nil, err
		}
		p.Work = backend.Some(b)
	}
	if plan.Workspace > 0 {
		b, err := r.filled(backend.F32, plan.Workspace)
		if err != nil {
			return nil, err
		}
		p.Workspace = backend.Some(b)
	}
	return func() error {
		p.Cache = r.next()
		return r.be.Attend(r.stream, p)
	}, nil
}

// appendCall writes every token of every sequence. The new rows lie in one buffer
// that the calls go through in turn, so that they come from memory too.
func (r *rig) appendCall() (func() error, error) {
	slots := make([]int64, 0, r.Batch*r.Context)
	for i := range r.Batch {
		for t := range r.Context {
			block := r.ids[i*r.blocksPerSeq()+t/r.slots()]
			slots = append(slots, int64(block)*int64(r.slots())+int64(t%r.slots()))
		}
	}
	p := backend.AppendParams[backend.AnyBuffer]{Tokens: len(slots)}
	var err error
	if p.Slots, err = uploaded(r, backend.I64, slots); err != nil {
		return nil, err
	}
	rows := len(slots) * r.width()
	bytes, _ := r.act.Size(2 * rows)
	copies := int(max(1, min(r.footprint, r.be.Info().FreeMemory/4)/bytes))
	input, err := r.filled(r.act, 2*rows*copies)
	if err != nil {
		return nil, err
	}
	p.K.Buf, p.V.Buf = input, input
	return func() error {
		p.Cache = r.next()
		p.K.Offset = r.turn % copies * 2 * rows
		p.V.Offset = p.K.Offset + rows
		return r.be.Append(r.stream, p)
	}, nil
}
