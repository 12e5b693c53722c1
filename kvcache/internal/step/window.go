package step

import (
	"cmp"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// With Storage.Residual the last tokens of a sequence are read as they were computed and those
// before as they are stored in few bits (KIVI, arXiv:2402.02750). Which those are is a function of
// the query's position alone, however a prompt is cut into steps: its edge, below. Steps write to
// the written store. A block that lies before the edge of some query of a step is quantized into the
// kept store in that step, layer by layer, after what Append writes and before Attend reads it,
// and becomes the sequence's with Commit. The written store gives a block up one block's tokens later,
// so that a rejected draft finds what its queries saw. Who goes back further, or begins with what
// others left, has the window's tokens in few bits only: the next step brings those back.

// both is the work in a part with two stores.
type both[B backend.Buffer] struct{ rows[B] }

// scores: slots of two stores have the same numbers, so that only the pool's own have a place.
func (b both[B]) scores() bool { return b.Part.Config.Attention.Scores }

func (b both[B]) enqueue() error {
	if err := b.upload(); err != nil {
		return err
	}
	if err := b.enqueueWindow(); err != nil {
		return err
	}
	return b.clearNew()
}

// sealing is what a step adds where tokens lie in two stores.
type sealing[B backend.Buffer] struct {
	taken    []block.Block            // of the kept store, by all entries
	older    bool                     // some query reads quantized tokens
	sealed   store.Vector[B, uint32]  // [blocks, 2]: what is quantized in the step
	restored store.Vector[B, uint32]  // [blocks, 2]: what is brought back before it
	results  backend.Opt[B]           // [2, tokens, query heads, value head dim], activation type
	lse      store.Vector[B, float32] // [2, tokens, query heads]
	merged   store.Vector[B, float32] // [tokens, query heads]
	homes    homes[B]                 // of scores
}

// window decides what an entry brings back and what it keeps of the kept store.
func (e *entry[B]) window() {
	s := e.run
	e.restored = max(s.Written.From-s.Part.Config.Edge(e.first()), 0)
	e.full = s.Full()
}

// seals is the number of blocks that an entry takes of the kept store.
func (e *entry[B]) seals() int {
	if !e.write {
		return 0
	}
	return max(e.run.Part.Config.Edge(e.context()-1)-e.full, 0)
}

// takeSealed takes the blocks of a store that the step quantizes into.
func (b *Step[B]) takeSealed(at int) error {
	p, st, t := b.Part, b.Part.Stores[at], &b.sealing
	t.taken, t.older = t.taken[:0], b.Size.Seqs > 0
	need, err := st.Fits(b.countSeals)
	if err != nil {
		return err
	}
	for i := range b.entries {
		e := &b.entries[i]
		t.older = t.older || p.Config.Edge(e.context()-1) > 0
		n := e.seals()
		if n == 0 {
			continue
		}
		had := len(t.taken)
		if t.taken, err = st.TakeFor(&e.run.Segments[at], &e.sealed, e.run.Root, t.taken, n); err != nil {
			return ofStep(err, need, had)
		}
	}
	from := 0
	for i := range b.entries {
		n := b.entries[i].seals()
		b.entries[i].sealed.Blocks = t.taken[from : from+n : from+n]
		from += n
	}
	return nil
}

// countSeals is how many blocks of the kept store the step needs, and how many of them are promised.
func (b *Step[B]) countSeals() (need, promised int, err error) {
	for i := range b.entries {
		e := &b.entries[i]
		e.sealed = store.Owned{Claimed: e.run.Kept.Claim.Blocks()}
		need, promised = need+e.seals(), promised+min(e.seals(), e.sealed.Claimed)
	}
	return need, promised, nil
}

// sealedTables writes row i of the tables of the stores before the last: the entry's blocks from one on, as they will be once the step is
// committed, with its gap.
func (e *entry[B]) sealedTables(ix *Index[B], i, first int) {
	for at := range ix.sealed() {
		row, had := ix.at[at].row(i), e.run.Segments[at].Blocks[:e.full]
		n := e.gap / e.run.Part.Config.KernelTokens()
		n += ids(row[n:], had[min(first, len(had)):])
		n += ids(row[n:], e.sealed.Blocks[min(max(first-len(had), 0), len(e.sealed.Blocks)):])
		clear(row[n:])
		e.part(row)
	}
}

// enqueueWindow brings back what the step's queries are to read exactly, and says what Append
// quantizes.
func (b *Step[B]) enqueueWindow() error {
	p, t := b.Part, &b.sealing
	t.restored.Host, t.sealed.Host = t.restored.Host[:0], t.sealed.Host[:0]
	if b.staging.on {
		if err := b.enqueueStaging(); err != nil {
			return err
		}
	}
	for i := range b.entries {
		e := &b.entries[i]
		first := e.run.Written.From - e.restored
		for j := 0; j < e.restored && !e.staged.long; j++ {
			t.restored.Host = append(t.restored.Host, e.run.Kept.Blocks[first+j].ID, e.fresh.Blocks[j].ID)
		}
		for j := range e.sealed.Blocks {
			t.sealed.Host = append(t.sealed.Host, e.block(e.full+j), e.sealed.Blocks[j].ID)
		}
	}
	t.sealed.Host = pad(t.sealed.Host, 2*b.Size.Seqs*p.Config.BlocksOf(b.Size.Tokens)) // in every step as many
	if err := b.bringBack(); err != nil {
		return err
	}
	if len(t.sealed.Host) > 0 {
		if err := t.sealed.Upload(p.BE, b.Stream); err != nil {
			return err
		}
	}
	if p.Config.Attention.Scores {
		if err := b.enqueueHomes(); err != nil {
			return err
		}
	}
	return b.fitBoth()
}

// bringBack stores the restored blocks in the written store, in every layer.
func (b *Step[B]) bringBack() error {
	p, t := b.Part, &b.sealing
	if len(t.restored.Host) == 0 {
		return nil
	}
	if err := t.restored.Upload(p.BE, b.Stream); err != nil {
		return err
	}
	p.LockScores()
	defer p.UnlockScores()
	for l := range p.Written.Layers {
		if err := p.Convert(b.Stream, &p.Kept.Layers[l], &p.Written.Layers[l], &t.restored); err != nil {
			return err
		}
	}
	return nil
}

// QuantizeResidual quantizes, in a layer that has the step's rows, the blocks that lie before the edge of some
// query.
func (b *Step[B]) QuantizeResidual(layer int) error {
	if len(b.sealing.sealed.Host) == 0 {
		return nil
	}
	b.Part.LockScores()
	defer b.Part.UnlockScores()
	from := b.exact(layer)
	return b.Part.Convert(b.Stream, from, &b.Part.Kept.Layers[layer], &b.sealing.sealed)
}

// commitSealed hands what was quantized to the sequence, and gives up what no query will read
// exactly. The fence is the step's.
func (e *entry[B]) commitSealed(f *residency.Fence) (err error) {
	s, p := e.run, e.run.Part
	for i, st := range p.Sealed() {
		g := &s.Segments[i]
		err = cmp.Or(err, st.Cut(g, e.full, f)) // a last block that is not full was brought back
		st.Append(g, e.sealed.Blocks)
		err = cmp.Or(err, p.Stores[i+1].Drop(&s.Segments[i+1], p.Config.Edge(s.Len-1-p.Config.BlockTokens()), f))
	}
	return err
}

// attendBoth attends to both stores and merges, and adds to scores.
func (b *Step[B]) attendBoth(layer int, q *backend.Rows[B], out *backend.Outputs[B]) error {
	p, t, fresh := b.Part, &b.sealing, b.exact(layer)
	if out.Scores.Set {
		return backend.ErrUnsupported{Package: "kvcache", Op: "attend", Why: "LayerIO.Scores has one score for each " +
			"slot number, and with Storage.Residual slots of two caches have the same numbers; use Attention.Scores"}
	}
	scored := b.scored(layer)
	if scored {
		p.LockScores()
		defer p.UnlockScores()
		if err := p.CopyScores(b.Stream, &p.Kept.Layers[layer], fresh, &t.homes.out); err != nil {
			return err
		}
	}
	if !t.older {
		own := *out
		if scored {
			own.Scores = fresh.Scores
		}
		err := b.attendTo(fresh, b.Index.Written(), q, &own)
		if err == nil && scored {
			err = b.score(layer, q, backend.Opt[B]{}, 0)
		}
		return err
	}
	rows, width := b.Index.tokens()*p.Config.Model.QHeads, p.Config.Model.VHeadDim
	part := backend.Outputs[B]{Rows: backend.Dense(t.results.Buf), LSE: t.lse.Buf}
	if err := b.attendTo(fresh, b.Index.Written(), q, &part); err != nil {
		return err
	}
	part.Rows.Offset, part.LSEOffset = rows*width, rows
	if err := b.attendTo(&p.Kept.Layers[layer], &b.Index.at[0], q, &part); err != nil {
		return err
	}
	merge := backend.MergeParams[B]{
		Parts: 2, Tokens: b.Index.tokens(), Heads: p.Config.Model.QHeads, Dim: width,
		In: t.results.Buf, LSE: t.lse.Buf.Buf, Out: out.Rows, OutLSE: out.LSE}
	apart := out.LSE.Set && out.LSEOffset != 0
	if apart || scored && !out.LSE.Set { // Merge writes from the first element on
		merge.OutLSE = t.merged.Buf
	}
	err := p.BE.Merge(b.Stream, merge)
	if err == nil && apart {
		err = p.BE.Copy(b.Stream, out.LSE.Buf, out.LSEOffset, t.merged.Buf.Buf, 0, rows)
	}
	if err == nil && scored {
		err = b.score(layer, q, merge.OutLSE, 0)
	}
	return err
}

// fitBoth makes room for two results.
func (b *Step[B]) fitBoth() error {
	p, t := b.Part, &b.sealing
	rows := b.Index.tokens() * p.Config.Model.QHeads
	if err := cmp.Or(t.lse.Fit(p.BE, 2*rows), t.merged.Fit(p.BE, rows)); err != nil {
		return err
	}
	if n := 2 * rows * p.Config.Model.VHeadDim; !t.results.Set || t.results.Buf.Len() < n {
		grown, err := p.BE.Alloc(p.Config.Model.Act, n)
		if err != nil {
			return err
		}
		if t.results.Set {
			_ = p.BE.Free(t.results.Buf) // ours and live
		}
		t.results = backend.Some(grown)
	}
	return nil
}

func (t *sealing[B]) free(be backend.Backend[B]) {
	t.sealed.Free(be)
	t.restored.Free(be)
	t.lse.Free(be)
	t.merged.Free(be)
	t.homes.free(be)
	if t.results.Set {
		_ = be.Free(t.results.Buf) // ours and live
	}
}
