package step

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// A backend takes its parameters by value, and they are large: each call below writes them where it passes them.
// Copied from a variable that was just filled they cost a small step several percent.

// Turns reports whether a layer's keys, and queries with them, are turned as it stores keys.
func (b *Step[B]) Turns(layer int) bool { return b.exact(layer).View.K.Hadamard }

// Append writes the rows k and v to a layer, and quantizes what leaves the window. It rotates, or turns as the layer
// stores keys, also the queries q; nil: there are none.
func (b *Step[B]) Append(layer int, k, v, q *backend.Rows[B], rotate bool) error {
	if b.staging.on {
		if err := b.enter(layer); err != nil {
			return err
		}
	}
	ix, c := &b.Index, &b.Part.Config
	queryHeads, rotary, positions := c.Model.QHeads, &b.Part.RoPE, &ix.Positions.Buf
	if q == nil {
		q, queryHeads = &b.none.rows, 0
	}
	if !rotate {
		rotary, positions = &b.none.rotary, &b.none.positions
	}
	err := b.Part.BE.Append(b.Stream, backend.AppendParams[B]{
		Cache: b.exact(layer).View, Tokens: ix.tokens(), K: *k, V: *v, Slots: ix.Slots.Buf.Buf,
		Rotary: *rotary, Positions: *positions, QHeads: queryHeads, Q: *q, Saturate: c.Storage.Saturate,
	})
	if err != nil {
		return err
	}
	return b.QuantizeResidual(layer)
}

// Attend computes a layer's attention for the queries q, into out.
func (b *Step[B]) Attend(layer int, q *backend.Rows[B], out *backend.Outputs[B]) error {
	if b.Part.Residual() {
		if b.staging.on && !b.writes && b.staging.layer != layer { // no Append has come before
			if err := b.enter(layer); err != nil {
				return err
			}
		}
		return b.attendBoth(layer, q, out)
	}
	l := &b.Part.Written.Layers[layer]
	if out.Scores.Set || !b.scored(layer) {
		return b.attendTo(l, b.Index.Written(), q, out)
	}
	scored := *out
	scored.Scores = l.Scores
	b.Part.LockScores()
	defer b.Part.UnlockScores()
	return b.attendTo(l, b.Index.Written(), q, &scored)
}

// exact is where a layer's new rows are written.
func (b *Step[B]) exact(layer int) *store.Layer[B] {
	if b.staging.on {
		return b.stagingOf(layer)
	}
	return &b.Part.Written.Layers[layer]
}

// attendTo attends to what lies in a layer of a store.
func (b *Step[B]) attendTo(l *store.Layer[B], part *partial[B], q *backend.Rows[B], out *backend.Outputs[B]) error {
	if b.sees && l.Mask.NonCausal {
		return b.attendByEnds(l, part, q, out)
	}
	c, d := &b.Part.Config, &part.divisions[l.Format]
	return b.Part.BE.Attend(b.Stream, backend.AttendParams[B]{
		Cache: l.View, Batch: b.Index.ragged(part), Q: *q, QHeads: c.Model.QHeads, Scale: c.Model.Scale, Mask: l.Mask, Out: *out,
		Plan: d.plan, Work: d.work.Buf, Workspace: b.Index.workspace.Buf,
		Int8Query: c.Attention.Int8Query && l.View.K.Data.DType().Quantized(),
	})
}

// attendByEnds is attendTo where the ends of views say what a mask would that is not causal.
func (b *Step[B]) attendByEnds(l *store.Layer[B], part *partial[B], q *backend.Rows[B], out *backend.Outputs[B]) error {
	causal := *l
	causal.Mask.NonCausal = false
	return b.attendTo(&causal, part, q, out)
}
