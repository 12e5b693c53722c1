package kvcache

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Plan takes the blocks that the step's new tokens need, copies shared ones that
// it writes into, divides the attention over the device and uploads the index
// vectors, all on stream. ErrOutOfBlocks says how many are missing; whatever fails,
// the sequences are as before and the step can be planned again.
func (b *Batch[B]) Plan(stream backend.Stream) error {
	if err := b.want("plan", stepOpen); err != nil {
		return err
	}
	if stream == nil {
		return errNoStream("plan")
	}
	if len(b.entries) == 0 {
		return ErrStep{Op: "plan", Why: "the step has no sequences; Add some first"}
	}
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil {
		return err
	}
	b.stream = stream
	return lacking("plan", b.plan())
}

// plan is Plan under the pool's lock.
func (b *Batch[B]) plan() error {
	p := b.pool
	if err := b.takeBlocks(); err != nil {
		err = errors.Join(err, b.giveBack(nil))
		if !p.fresh.Unpublish(err, tails(b.writers())) {
			return err
		}
		if err := b.takeBlocks(); err != nil {
			return errors.Join(err, b.giveBack(nil))
		}
	}
	b.writes = slices.ContainsFunc(b.entries, func(e entry[B]) bool { return e.write })
	b.index.fill(b)
	err := b.planAttend()
	if err == nil {
		err = b.order()
	}
	if err != nil { // nothing was enqueued that uses the blocks
		return errors.Join(p.fences.Observe(err), b.giveBack(nil))
	}
	if err := b.enqueuePlan(); err != nil {
		return errors.Join(p.fences.Observe(err), b.abandon())
	}
	b.written, b.foreign = slices.Grow(b.written[:0], p.cfg.Layers)[:p.cfg.Layers], false
	clear(b.written)
	b.state = stepPlanned
	return nil
}

// layerMask is the mask that the plan is made for: the widest of the layers'.
func (b *Batch[B]) layerMask() Mask {
	widest := b.pool.cfg.mask(0)
	for _, m := range b.pool.cfg.Masks {
		if m.Window == 0 || widest.Window != 0 && m.Window > widest.Window {
			widest.Window = m.Window
		}
		widest.SinkTokens = max(widest.SinkTokens, m.SinkTokens)
	}
	return widest
}

// takeBlocks takes what each entry needs. On failure the caller gives back.
func (b *Batch[B]) takeBlocks() error {
	p := b.pool
	b.taken = b.taken[:0]
	need, err := p.fresh.Fits(b.countBlocks) // before anything is evicted
	if err != nil {
		return err
	}
	if p.windowed() {
		if err := b.takeKept(); err != nil {
			return err
		}
	}
	for i := range b.entries {
		e := &b.entries[i]
		n := e.need
		if n == 0 { // most entries of a decode step
			continue
		}
		had := len(b.taken)
		var err error
		if b.taken, err = e.seq.take(b.taken, n); err != nil {
			return ofStep(err, need, had)
		}
	}
	at := 0
	for i := range b.entries {
		n := b.entries[i].need
		b.entries[i].fresh.blocks = b.taken[at : at+n : at+n]
		at += n
	}
	return nil
}

// ofStep makes what one sequence lacks, when others had some already, what the whole step lacks.
func ofStep(err error, need, had int) error {
	var short ErrOutOfBlocks
	if errors.As(err, &short) {
		return ErrOutOfBlocks{Need: need, Free: short.Free + had}
	}
	return err
}

// countBlocks decides which entries copy their last block and returns how many blocks
// the step needs, and how many of them claims promise.
func (b *Batch[B]) countBlocks() (need, promised int, err error) {
	for i := range b.entries {
		e := &b.entries[i]
		e.fresh, e.copies = owned{claimed: e.seq.fresh().claim.Blocks()}, false
		if b.pool.windowed() {
			e.window()
		}
		if e.seq.failed != nil { // since it was added
			return 0, 0, fmt.Errorf("kvcache: plan: %w", e.seq.failed)
		}
		if e.write {
			if e.copies, err = e.seq.tailShared(); err != nil {
				return 0, 0, err
			}
		}
	}
	for i := range b.entries {
		e := &b.entries[i]
		if e.copies && b.keeps(e) {
			e.copies = false
		}
		e.need = e.needs()
		need, promised = need+e.need, promised+min(e.need, e.fresh.claimed)
	}
	return need, promised, nil
}

// writers are the sequences that the step writes.
func (b *Batch[B]) writers() iter.Seq[*Sequence[B]] {
	return func(yield func(*Sequence[B]) bool) {
		for _, e := range b.entries {
			if e.write && !yield(e.seq) {
				return
			}
		}
	}
}

// keeps reports whether an entry may write into its shared last block because
// every other owner gets a copy in this very step. It is the owner with the most
// tokens in it, so that it writes behind all of theirs: should the step be
// abandoned, nobody's tokens have changed.
func (b *Batch[B]) keeps(e *entry[B]) bool {
	if b.pool.fresh.Published(e.seq.tail()) {
		return false
	}
	owners, err := b.pool.fresh.Owners(e.seq.tail())
	for i := range b.entries {
		o := &b.entries[i]
		if !o.copies || o.seq.tail() != e.seq.tail() {
			continue
		}
		if o.seq.len%b.pool.cfg.slots() > e.seq.len%b.pool.cfg.slots() {
			return false
		}
		owners--
	}
	return err == nil && owners == 0
}

// context is the entry's tokens in the cache, those of the step included.
func (e *entry[B]) context() int {
	if e.write {
		return e.seq.len + e.tokens
	}
	return e.seq.len
}

// needs is the number of blocks the entry has to take of the fresh store.
func (e *entry[B]) needs() int {
	n := ceilDiv(e.context(), e.seq.pool.cfg.slots()) - e.seq.fresh().end() + e.restored
	if e.copies {
		n++
	}
	return n
}

// block is the number of the entry's block at place i of its table of the fresh store, as it will be
// once the step is committed.
func (e *entry[B]) block(i int) uint32 {
	g, fresh := e.seq.fresh(), e.fresh.blocks
	if i < g.gone {
		return fresh[i-g.gone+e.restored].ID
	}
	fresh = fresh[e.restored:]
	if e.copies {
		if i == e.seq.len/e.seq.pool.cfg.slots() {
			return fresh[0].ID
		}
		fresh = fresh[1:]
	}
	if i < g.end() {
		return g.blocks[i-g.gone].ID
	}
	return fresh[i-g.end()].ID
}

// table writes the numbers of the entry's first len(row) blocks, as block has them; 0 for those
// that the store does not have, which nobody sees.
func (e *entry[B]) table(row []uint32) {
	g, fresh := e.seq.fresh(), e.fresh.blocks
	at := 0
	if g.gone > 0 {
		at = min(g.gone-e.restored, len(row))
		clear(row[:at])
		at += ids(row[at:], fresh[:e.restored])
		fresh = fresh[e.restored:]
	}
	n := at + ids(row[at:], g.blocks)
	if e.copies {
		row[e.seq.len/e.seq.pool.cfg.slots()], fresh = fresh[0].ID, fresh[1:]
	}
	ids(row[n:], fresh)
}

// ids writes the numbers of as many blocks as row has room for, and returns how many. Eight
// at a time take a little more than half as long: a step has tens of thousands.
func ids(row []uint32, blocks []block.Block) int {
	n := min(len(row), len(blocks))
	row, blocks = row[:n], blocks[:n]
	for len(row) >= 8 && len(blocks) >= 8 {
		row[0], row[1], row[2], row[3] = blocks[0].ID, blocks[1].ID, blocks[2].ID, blocks[3].ID
		row[4], row[5], row[6], row[7] = blocks[4].ID, blocks[5].ID, blocks[6].ID, blocks[7].ID
		row, blocks = row[8:], blocks[8:]
	}
	for i := range row {
		row[i] = blocks[i].ID
	}
	return n
}

// order puts the step's stream behind the steps that used the same memory on others.
func (b *Batch[B]) order() error {
	if err := b.fence.Order(b.stream); err != nil {
		return err
	}
	for i := range b.entries {
		if err := b.entries[i].seq.fence.Order(b.stream); err != nil {
			return err
		}
	}
	return nil
}

// enqueuePlan puts the step's uploads and copies on its stream.
func (b *Batch[B]) enqueuePlan() error {
	if err := b.index.upload(b.pool.be, b.stream); err != nil {
		return err
	}
	if err := b.copyShared(); err != nil {
		return err
	}
	if b.pool.windowed() {
		return b.enqueueWindow()
	}
	if p := b.pool; p.cfg.Scores && b.writes { // tokens begin with none, whatever lay in their slots
		return p.clearScores(b.stream, b.index.slots.buf.Buf, b.index.tokens())
	}
	return nil
}

// copyShared copies the shared blocks that the step writes into, in every layer.
func (b *Batch[B]) copyShared() error {
	ix := &b.index
	ix.pairs.host = ix.pairs.host[:0]
	for i := range b.entries {
		if e := &b.entries[i]; e.copies {
			ix.pairs.host = append(ix.pairs.host, e.seq.tail().ID, e.fresh.blocks[e.restored].ID)
		}
	}
	if len(ix.pairs.host) == 0 {
		return nil
	}
	return b.pool.copyBlocks(b.stream, b.pool.fresh, &ix.pairs)
}

func (p *Pool[B]) copyBlocks(s backend.Stream, st *store[B], pairs *vector[B, uint32]) error {
	if err := pairs.upload(p.be, s); err != nil {
		return err
	}
	for i := range st.layers {
		l := &st.layers[i]
		err := p.be.CopyBlocks(s, backend.CopyBlocksParams[B]{From: l.view, To: l.view, FromMass: l.scores, ToMass: l.scores, Pairs: pairs.buf.Buf, N: len(pairs.host) / 2})
		if err != nil {
			return err
		}
	}
	return nil
}

// abandon gives back what a planned step took, once the device is past what was
// enqueued for it.
func (b *Batch[B]) abandon() error {
	p := b.pool
	f, err := p.fences.Record(p.be, b.stream)
	if err != nil {
		return errors.Join(p.fences.Observe(residency.Drain(b.stream)), b.giveBack(nil))
	}
	err = b.giveBack(f.Hold())
	b.used(f)
	for i := range b.entries {
		b.entries[i].seq.used(f) // it may have written behind the tokens of the last block
	}
	p.fences.Drop(f)
	return err
}

// giveBack returns the step's blocks behind f and restores the claims.
func (b *Batch[B]) giveBack(f *residency.Fence) error {
	p := b.pool
	err := p.fresh.Retire(f, b.taken)
	err = firstOf(err, p.kept.Retire(f, b.sealing.taken))
	b.taken, b.sealing.taken = b.taken[:0], b.sealing.taken[:0]
	for i := range b.entries {
		e := &b.entries[i]
		e.copies, e.restored = false, 0
		err = firstOf(err, p.fresh.giveBack(e.seq.fresh(), &e.fresh, f))
		if p.windowed() {
			err = firstOf(err, p.kept.giveBack(&e.seq.kept, &e.kept, f))
		}
	}
	return err
}
