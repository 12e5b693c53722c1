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

// Attend computes a layer's attention for the queries p.Q, into p.Out; it sets the rest of p.
func (b *Step[B]) Attend(layer int, p *backend.AttendParams[B]) error {
	if b.Stores.Windowed() {
		if b.staging.on && !b.writes && b.staging.layer != layer { // no Append has come before
			if err := b.enter(layer); err != nil {
				return err
			}
		}
		return b.attendBoth(layer, p)
	}
	l := &b.Stores.Fresh.Layers[layer]
	if p.Out.Scores.Set || !b.scored(layer) {
		return b.attendTo(l, &b.Index.Fresh, p)
	}
	p.Out.Scores = l.Scores
	b.Stores.LockScores()
	defer b.Stores.UnlockScores()
	return b.attendTo(l, &b.Index.Fresh, p)
}

// exact is where a layer's new rows are written.
func (b *Step[B]) exact(layer int) *store.Layer[B] {
	if b.staging.on {
		return b.stagingOf(layer)
	}
	return &b.Stores.Fresh.Layers[layer]
}

// attendTo attends to what lies in a layer of a store.
func (b *Step[B]) attendTo(l *store.Layer[B], part *partial[B], p *backend.AttendParams[B]) error {
	c, d := &b.Stores.Config, &part.divisions[l.Format]
	p.Cache, p.Mask, p.QHeads, p.Scale = l.View, l.Mask, c.Model.QHeads, c.Model.Scale
	b.Index.ragged(&p.Batch, part)
	p.Plan, p.Work, p.Workspace = d.plan, d.work.Buf, b.Index.workspace.Buf
	p.Int8Query = c.Attention.Int8Query && l.View.K.Data.DType().Quantized()
	return b.Stores.BE.Attend(b.Stream, *p)
}
