package step

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// With Storage.Residual a step reads its new tokens exactly, each its window, and most of them are quantized at its
// end: exact blocks for a long prompt, in all layers, would be more memory than the quantized cache. A step with
// more than Memory.StepTokens tokens of a sequence has them in a cache of one layer, the staging, that its
// layers use in turn: into it come the blocks of the windows, and the step's rows; from it blocks are quantized,
// and the last ones copied to the written store. What queries read is the same.

// staging is the cache of one layer that a long step's layers use in turn. It is kept for the next one.
type staging[B backend.Buffer] struct {
	on     bool
	blocks int  // of the step
	room   int  // blocks that there is memory for
	layer  int  // whose rows it has; −1: none
	left   bool // its last blocks are in the written store
	k, v   backend.Opt[B]
	cache  store.Layer[B]           // the staging as a layer's
	scores store.Vector[B, float32] // [blocks, KV heads, block tokens]

	in   store.Vector[B, uint32] // [blocks, 2]: exact ones that come from the written store
	back store.Vector[B, uint32] // [blocks, 2]: quantized ones that are brought back
	out  store.Vector[B, uint32] // [blocks, 2]: those that go to the written store
	seen store.Vector[B, uint32] // [blocks, 2]: those that stay there, of which the scores go
	ends map[uint32]bool         // blocks that pairs of seen end at
}

// staged is an entry of a long step: its blocks from first on lie in the staging, from base on.
type staged struct {
	long        bool // the step is one
	first, base int
}

// stage decides whether the step is a long one.
func (b *Step[B]) stage() {
	t := &b.staging
	t.on, t.blocks, t.layer, t.left = false, 0, -1, true
	for i := range b.entries {
		e := &b.entries[i]
		e.staged = staged{}
		e.restored, e.full = 0, 0
	}
	b.work.stage()
}

func (b both[B]) stage() {
	t := &b.staging
	for i := range b.entries {
		e := &b.entries[i]
		e.window()
		t.on = t.on || e.long()
	}
	for i := range b.entries {
		if !t.on {
			return
		}
		e := &b.entries[i]
		// what is read, and what is quantized
		e.staged = staged{true, min(b.Part.Config.Edge(e.first()), e.run.Full()), t.blocks}
		t.blocks += b.Part.Config.BlocksOf(e.context()) - e.staged.first
	}
}

// long reports whether a step with the entry goes through a staging: there are many new tokens, or it only reads
// and finds tokens quantized that its queries see as they were.
func (e *entry[B]) long() bool {
	c := &e.run.Part.Config
	if e.write {
		return e.tokens > c.Memory.StepTokens
	}
	return e.run.Written.From > c.Edge(e.first())
}

// Has reports whether attention to a layer finds the step's rows: those of a long step are there until the next
// layer's come.
func (b *Step[B]) Has(layer int) bool { return !b.staging.on || b.staging.layer == layer || !b.writes }

// after is the blocks of the written store that an entry of a long step has afterwards, from begin on; those from one to
// another, which were full, it has already.
func (e *entry[B]) after() (begin, from, to int) {
	c, g := &e.run.Part.Config, e.run.Written
	begin = max(c.Edge(e.context()-1-c.BlockTokens()), min(g.From, e.staged.first))
	from = max(begin, g.From)
	return begin, from, max(e.run.Len/c.BlockTokens(), from)
}

// takes is the number of blocks that an entry of a long step takes of the written store.
func (e *entry[B]) takes() int {
	if !e.write {
		return 0
	}
	begin, from, to := e.after()
	return e.run.Part.Config.BlocksOf(e.context()) - begin - (to - from)
}

// fitStaging makes room for the step.
func (b *Step[B]) fitStaging() error {
	t, p := &b.staging, b.Part
	if t.blocks <= t.room {
		return nil
	}
	t.room = 0
	c := &p.Config
	for _, pl := range [...]struct {
		to  *backend.Opt[B]
		dim int
	}{{&t.k, c.Model.HeadDim}, {&t.v, c.Model.VHeadDim}} {
		if pl.to == &t.v && c.Model.Latent {
			break // values are in the keys
		}
		n, ok := backend.Mul(t.blocks, c.Model.KVHeads, c.BlockTokens(), pl.dim)
		if !ok {
			return fmt.Errorf("%d blocks of one layer for a step with more than Memory.StepTokens tokens of a sequence: "+
				"%w", t.blocks, backend.ErrOutOfMemory{})
		}
		if pl.to.Set {
			_ = p.BE.Free(pl.to.Buf) // ours and live
			pl.to.Set = false
		}
		buf, err := p.BE.Alloc(c.Model.Act, n)
		if err != nil {
			return err
		}
		*pl.to = backend.Some(buf)
	}
	if c.Attention.Scores {
		if err := t.scores.Fit(p.BE, t.blocks*c.Model.KVHeads*c.BlockTokens()); err != nil {
			return err
		}
	}
	t.room = t.blocks
	return nil
}

// stagingOf is the staging as the cache of a layer.
func (b *Step[B]) stagingOf(layer int) *store.Layer[B] {
	t := &b.staging
	t.cache = b.Part.Written.Layers[layer]
	l := &t.cache
	l.View.Blocks, l.View.K.Data, l.View.V.Data = t.room, t.k.Buf, t.v.Buf
	if l.Scores.Set {
		l.Scores = t.scores.Buf
	}
	return l
}

// enqueueStaging says what comes into the staging and goes from it, which is the same in all layers.
func (b *Step[B]) enqueueStaging() error {
	p, t := b.Part, &b.staging
	t.in.Host, t.back.Host, t.out.Host, t.seen.Host = t.in.Host[:0], t.back.Host[:0], t.out.Host[:0], t.seen.Host[:0]
	if t.ends == nil {
		t.ends = map[uint32]bool{}
	}
	clear(t.ends)
	for i := range b.entries {
		e := &b.entries[i]
		g, had := e.run.Written, p.Config.BlocksOf(e.run.Len)
		for j := e.staged.first; j < had; j++ {
			if j < g.From {
				t.back.Host = append(t.back.Host, e.run.Kept.Blocks[j].ID, e.stagedBlock(j))
			} else {
				t.in.Host = append(t.in.Host, g.At(j).ID, e.stagedBlock(j))
			}
		}
		begin, from, to := e.after()
		for n, j := 0, begin; n < len(e.fresh.Blocks); j++ {
			if j < from || j >= to {
				t.out.Host = append(t.out.Host, e.stagedBlock(j), e.fresh.Blocks[n].ID)
				n++
			}
		}
		if !e.write { // all of them stay
			from, to = g.From, had
		}
		for j := max(from, e.staged.first); j < to && p.Config.Attention.Scores; j++ {
			t.seen.Host = pair(t.seen.Host, t.ends, e.stagedBlock(j), g.At(j).ID)
		}
	}
	err := b.fitStaging()
	for _, v := range [...]*store.Vector[B, uint32]{&t.in, &t.back, &t.out, &t.seen} {
		if err == nil && len(v.Host) > 0 {
			err = v.Upload(p.BE, b.Stream)
		}
	}
	return err
}

// enter brings what the step's queries read of a layer's earlier tokens into the staging, whose rows
// before go where they belong.
func (b *Step[B]) enter(layer int) error {
	p, t := b.Part, &b.staging
	if t.layer != layer {
		if err := b.leave(); err != nil {
			return err
		}
		t.layer, t.left = layer, !b.writes && !p.Config.Attention.Scores
	}
	p.LockScores()
	defer p.UnlockScores()
	l := b.stagingOf(layer)
	if err := p.Convert(b.Stream, &p.Written.Layers[layer], l, &t.in); err != nil {
		return err
	}
	if err := p.Convert(b.Stream, &p.Kept.Layers[layer], l, &t.back); err != nil {
		return err
	}
	if !l.Scores.Set {
		return nil
	}
	if err := p.CopyScores(b.Stream, &p.Kept.Layers[layer], l, &b.sealing.homes.moved); err != nil {
		return err
	}
	if !b.writes {
		return nil
	}
	return b.clearScores(l)
}

// leave copies the last blocks of the layer that is in the staging to the written store.
func (b *Step[B]) leave() error {
	p, t := b.Part, &b.staging
	if t.left {
		return nil
	}
	p.LockScores()
	defer p.UnlockScores()
	l := b.stagingOf(t.layer)
	err := p.Convert(b.Stream, l, &p.Written.Layers[t.layer], &t.out)
	if err == nil {
		err = p.CopyScores(b.Stream, l, &p.Written.Layers[t.layer], &t.seen)
	}
	t.left = err == nil
	return err
}

// stagedBlock is where block i of the entry's sequence lies in the staging.
func (e *entry[B]) stagedBlock(i int) uint32 { return uint32(e.staged.base + i - e.staged.first) }

// stagedTable is table for an entry of a long step.
func (e *entry[B]) stagedTable(row []uint32) {
	clear(row[:min(e.staged.first, len(row))])
	for i := e.staged.first; i < len(row); i++ {
		row[i] = e.stagedBlock(i)
	}
}

// commitStaged gives the sequence the blocks of its window.
func (e *entry[B]) commitStaged(f *residency.Fence) error {
	begin, from, to := e.after()
	return e.run.Part.Written.Renew(e.run.Written, begin, from, to, e.fresh.Blocks, f)
}

func (t *staging[B]) free(be backend.Backend[B]) {
	t.in.Free(be)
	t.back.Free(be)
	t.out.Free(be)
	t.seen.Free(be)
	t.scores.Free(be)
	for _, buf := range [...]backend.Opt[B]{t.k, t.v} {
		if buf.Set {
			_ = be.Free(buf.Buf) // ours and live
		}
	}
}
