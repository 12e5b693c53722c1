package step

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// division is how the device divides the attention of a step over layers of one format.
type division[B backend.Buffer] struct {
	plan backend.AttendPlan
	work store.Vector[B, uint32]
}

// Divide asks the device how it divides the step.
func (b *Step[B]) Divide() error {
	for i, st := range b.Part.Stores {
		if err := b.divide(st, &b.Index.at[i]); err != nil {
			return err
		}
	}
	return nil
}

// divide asks how attention to what lies in a store is divided.
func (b *Step[B]) divide(st *store.Store[B], t *partial[B]) error {
	p, c, m, ix := b.Part, &b.Part.Config, b.widest(), &b.Index
	fixed := b.Size.Seqs > 0
	var table []uint32 // where common prefixes are to be looked for
	if c.Attention.MinShared > 0 || c.Attention.MinShared == 0 && !fixed {
		table = t.Tables.Host
	}
	if t.divisions == nil {
		t.divisions = make([]division[B], len(st.Formats))
	}
	split := &st.Layers[0].Mask
	var views []uint32
	if b.sees {
		views = ix.views.Host
	}
	for i := range t.divisions {
		d := &t.divisions[i]
		plan, err := p.BE.PlanAttend(backend.AttendShape{
			QHeads: c.Model.QHeads, KVHeads: c.Model.KVHeads, KDim: c.Model.HeadDim, VDim: c.Model.VHeadDim,
			BlockSize: c.KernelTokens(), Format: st.Formats[i], Latent: c.Model.Latent,
			ContextLens: ix.Lens.Host, QueryLens: ix.queries,
			NonCausal: split.NonCausal && !b.sees, Window: m.Window, SinkTokens: m.SinkTokens, Chunk: m.Chunk,
			Views: views, TreeWords: b.words, Part: split.Part, Residual: split.Residual,
			Scores: b.Mass && b.work.scores(), Work: d.work.Host[:0],
			Table: table, TableStride: t.Stride, MinShared: max(c.Attention.MinShared, 0), Fixed: fixed,
		})
		if err != nil {
			return err
		}
		d.plan, d.work.Host = plan, plan.Work
	}
	return nil
}

// widest is the mask that the plan is made for: the widest of the layers'.
func (b *Step[B]) widest() config.Mask {
	widest := b.Part.Config.Model.MaskOf(0)
	for _, m := range b.Part.Config.Model.Masks {
		if m.Window == 0 || widest.Window != 0 && m.Window > widest.Window {
			widest.Window = m.Window
		}
		widest.SinkTokens = max(widest.SinkTokens, m.SinkTokens)
		if m.Chunk != widest.Chunk { // a plan without one is for all
			widest.Chunk = 0
		}
	}
	if widest.Window == 0 { // what sees all sees the first tokens
		widest.SinkTokens = 0
	}
	return widest
}
