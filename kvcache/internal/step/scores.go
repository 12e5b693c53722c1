package step

import (
	"cmp"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// With Storage.Residual a block may lie in both stores. Its scores are then those of the kept one: sealing takes
// them there, and most queries read it there. Some read it in the written store: in the step that seals it,
// and after Truncate. So attention to a layer first copies the scores of blocks that are read so to the fresh
// store, adds there what queries give to recent keys, copies them back, and adds in the kept store what queries
// give to older keys. Sequences that
// share a block of one store and not of the other (forks; in the first step after Open, those with a prefix in
// common, whose window each brings back for itself) have what one of them gave.

// homes is whose scores go from store to store.
type homes[B backend.Buffer] struct {
	moved store.Vector[B, uint32] // [blocks, 2]: kept to fresh, once: what will be quantized anew
	out   store.Vector[B, uint32] // [blocks, 2]: kept to fresh, before recent keys are scored
	back  store.Vector[B, uint32] // [blocks, 2]: fresh to kept, after that
	ends  [2]map[uint32]bool      // blocks that pairs of out and of back end at
}

func (h *homes[B]) free(be backend.Backend[B]) {
	h.moved.Free(be)
	h.out.Free(be)
	h.back.Free(be)
}

// enqueueHomes says whose scores go elsewhere, and moves those of what is not quantized any more.
func (b *Step[B]) enqueueHomes() error {
	p, h := b.Part, &b.sealing.homes
	h.moved.Host, h.out.Host, h.back.Host = h.moved.Host[:0], h.out.Host[:0], h.back.Host[:0]
	for i := range h.ends {
		if h.ends[i] == nil {
			h.ends[i] = map[uint32]bool{}
		}
		clear(h.ends[i])
	}
	for i := range b.entries {
		e := &b.entries[i]
		had, brought := e.run.Kept.Blocks, e.run.Written.From
		if e.write && len(had) > e.full {
			if e.full >= brought { // else it is brought back with its scores
				h.moved.Host = append(h.moved.Host, had[e.full].ID, e.block(e.full))
			}
			had = had[:e.full]
		}
		for j := p.Config.Edge(e.first()); j < len(had)+len(e.sealed.Blocks); j++ {
			var kept block.Block
			if j < len(had) {
				kept = had[j]
			} else {
				kept = e.sealed.Blocks[j-len(had)]
			}
			h.out.Host = pair(h.out.Host, h.ends[0], kept.ID, e.block(j))
			h.back.Host = pair(h.back.Host, h.ends[1], e.block(j), kept.ID)
		}
	}
	if of := b.Size; of.Seqs > 0 { // what is captured does not change
		most := 2 * of.Seqs * (p.Config.WindowBlocks() + p.Config.BlocksOf(of.Tokens))
		h.out.Host, h.back.Host = pad(h.out.Host, most), pad(h.back.Host, most)
	}
	for _, v := range [...]*store.Vector[B, uint32]{&h.moved, &h.out, &h.back} {
		if len(v.Host) > 0 {
			if err := v.Upload(p.BE, b.Stream); err != nil {
				return err
			}
		}
	}
	if b.staging.on {
		return nil
	}
	return p.BringScores(b.Stream, &h.moved)
}

// pair adds a pair unless there is one that ends at the same block.
func pair(pairs []uint32, ends map[uint32]bool, from, to uint32) []uint32 {
	if ends[to] {
		return pairs
	}
	ends[to] = true
	return append(pairs, from, to)
}

// pad adds pairs of no block until there are as many numbers.
func pad(pairs []uint32, n int) []uint32 {
	for len(pairs) < n {
		pairs = append(pairs, backend.NoBlock, 0)
	}
	return pairs
}

// clearScores lets the step's new tokens in a layer begin with none, whatever lay in their slots.
func (b *Step[B]) clearScores(l *store.Layer[B]) error {
	return b.Part.ClearScores(b.Stream, l, b.Index.Slots.Buf.Buf, b.Index.tokens())
}

// scored reports whether attention to a layer adds to the scores of its tokens.
func (b *Step[B]) scored(layer int) bool {
	l := &b.Part.Written.Layers[layer]
	return b.Mass && l.Scores.Set && b.Index.Written().divisions[l.Format].plan.Scores
}

// score adds what the step's queries give to the tokens of a layer, whose log-sum-exps over both stores are
// given; none: no query reads quantized tokens, and attention itself has added it.
func (b *Step[B]) score(layer int, q *backend.Rows[B], lse backend.Opt[B], offset int) error {
	p, fresh, kept := b.Part, b.exact(layer), &b.Part.Kept.Layers[layer]
	b.staging.left = !b.staging.on // what the staging has got is still there alone
	if !lse.Set {
		return p.CopyScores(b.Stream, fresh, kept, &b.sealing.homes.back)
	}
	if err := b.weigh(fresh, b.Index.Written(), q, lse.Buf, offset); err != nil {
		return err
	}
	return cmp.Or(p.CopyScores(b.Stream, fresh, kept, &b.sealing.homes.back), b.weigh(kept, &b.Index.at[0], q, lse.Buf, offset))
}

// weigh adds the mass of what lies in a layer of a store.
func (b *Step[B]) weigh(l *store.Layer[B], part *partial[B], q *backend.Rows[B], lse B, offset int) error {
	c, d := &b.Part.Config, &part.divisions[l.Format]
	return b.Part.BE.AttendScores(b.Stream, backend.AttendScoresParams[B]{
		Cache: l.View, Batch: b.Index.ragged(part), Q: *q, QHeads: c.Model.QHeads, Scale: c.Model.Scale, Mask: l.Mask,
		LSE: lse, LSEOffset: offset, Scores: l.Scores.Buf, Plan: d.plan, Work: d.work.Buf,
		Int8Query: c.Attention.Int8Query && l.View.K.Data.DType().Quantized(),
	})
}
