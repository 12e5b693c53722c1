package step

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// Params fills p, which is zero and, as all parameters, too large to be handed around, with what an
// Append of new keys and values to a layer needs besides the rows.
func (b *Step[B]) Params(p *backend.AppendParams[B], layer int, k, v backend.Rows[B]) {
	p.Cache, p.Tokens, p.Slots = b.exact(layer).View, b.Index.tokens(), b.Index.Slots.Buf.Buf
	p.K, p.V, p.Saturate = k, v, b.Stores.Config.Storage.Saturate
}

// Rotate makes p rotate the keys, and the queries beside them, to the step's positions.
func (b *Step[B]) Rotate(p *backend.AppendParams[B]) {
	p.Rotary, p.Positions = b.Stores.RoPE, b.Index.Positions.Buf
}

// Append writes rows to a layer, and quantizes what leaves the window.
func (b *Step[B]) Append(layer int, p *backend.AppendParams[B]) error {
	if b.staging.on {
		if err := b.enter(layer); err != nil {
			return err
		}
	}
	if err := b.Stores.BE.Append(b.Stream, *p); err != nil {
		return err
	}
	return b.QuantizeResidual(layer)
}

// Attend computes a layer's attention for the step's queries.
func (b *Step[B]) Attend(layer int, q backend.Rows[B], out backend.Outputs[B]) error {
	if b.Stores.Windowed() {
		if b.staging.on && !b.writes && b.staging.layer != layer { // no Append has come before
			if err := b.enter(layer); err != nil {
				return err
			}
		}
		return b.attendBoth(layer, q, out)
	}
	l := &b.Stores.Fresh.Layers[layer]
	if out.Scores.Set || !b.scored(layer) {
		return b.attendTo(l, &b.Index.Fresh, q, out)
	}
	out.Scores = l.Scores
	b.Stores.LockScores()
	defer b.Stores.UnlockScores()
	return b.attendTo(l, &b.Index.Fresh, q, out)
}

// exact is where a layer's new rows are written.
func (b *Step[B]) exact(layer int) *store.Layer[B] {
	if b.staging.on {
		return b.stagingOf(layer)
	}
	return &b.Stores.Fresh.Layers[layer]
}

// attendTo attends to what lies in a layer of a store.
func (b *Step[B]) attendTo(l *store.Layer[B], part *partial[B], q backend.Rows[B], out backend.Outputs[B]) error {
	p := b.Stores
	d := &part.divisions[l.Format]
	return p.BE.Attend(b.Stream, backend.AttendParams[B]{
		Cache: l.View, Batch: b.Index.ragged(part),
		Q: q, QHeads: p.Config.Model.QHeads, Scale: p.Config.Model.Scale, Mask: l.Mask, Out: out,
		Plan: d.plan, Work: d.work.Buf, Workspace: b.Index.workspace.Buf, Int8Query: p.Config.Attention.Int8Query && l.View.K.Data.DType().Quantized(),
	})
}
