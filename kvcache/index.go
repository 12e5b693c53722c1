package kvcache

import (
	"math/bits"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// index is the integer side of a step, on the host and on the device: where rows
// go, where sequences lie, how the work is divided.
type index[B backend.Buffer] struct {
	slots     vector[B, int64]  // [tokens]
	positions vector[B, uint32] // [tokens]
	fresh     partial[B]        // of the store that the step writes to
	kept      partial[B]        // of the other one, if there is one
	lens      vector[B, uint32] // [seqs]
	offsets   vector[B, uint32] // [seqs+1]
	pairs     vector[B, uint32] // [copies, 2]
	workspace vector[B, float32]
	queries   []uint32 // [seqs], host only
}

// partial is where sequences lie in a store, and how attention to that is divided.
type partial[B backend.Buffer] struct {
	tables    vector[B, uint32] // [seqs, stride]
	stride    int
	divisions []division[B] // one for each format of the store's layers
}

// division is how the device divides the attention of a step over layers of one format.
type division[B backend.Buffer] struct {
	plan backend.AttendPlan
	work vector[B, uint32]
}

// vector is a host slice and its copy on the device, which only grows.
type vector[B backend.Buffer, T backend.Number] struct {
	host []T
	buf  backend.Opt[B]
}

// fit makes room for n elements on the device.
func (v *vector[B, T]) fit(be backend.Backend[B], n int) error {
	if v.buf.Set && v.buf.Buf.Len() >= n {
		return nil
	}
	var zero T
	dt := backend.U32
	switch any(zero).(type) {
	case int64:
		dt = backend.I64
	case int32:
		dt = backend.I32
	case float32:
		dt = backend.F32
	}
	grown, err := be.Alloc(dt, 1<<bits.Len(uint(max(n, 64)-1)))
	if err != nil {
		return err
	}
	v.free(be)
	v.buf = backend.Some(grown)
	return nil
}

func (v *vector[B, T]) upload(be backend.Backend[B], s backend.Stream) error {
	if err := v.fit(be, len(v.host)); err != nil {
		return err
	}
	return backend.Upload(be, s, v.buf.Buf, 0, v.host)
}

// free ends the vector's life. It writes nothing: when a pool is closed under its
// users they may be reading v.
func (v *vector[B, T]) free(be backend.Backend[B]) {
	if v.buf.Set {
		_ = be.Free(v.buf.Buf) // ours and live
	}
}

// fill computes the host side for the step's entries, whose blocks are taken.
func (ix *index[B]) fill(b *Batch[B]) {
	slots := b.pool.cfg.slots()
	ix.slots.host, ix.positions.host = ix.slots.host[:0], ix.positions.host[:0]
	ix.lens.host, ix.queries = ix.lens.host[:0], ix.queries[:0]
	ix.offsets.host = append(ix.offsets.host[:0], 0)
	stride := 1
	for i := range b.entries {
		stride = max(stride, ceilDiv(b.entries[i].context(), slots))
	}
	seqs := len(b.entries)
	if b.fixed.seqs > 0 {
		seqs, stride = b.fixed.seqs, ceilDiv(b.pool.cfg.Capacity, slots)
	}
	ix.fresh.room(seqs, stride)
	if b.pool.windowed() {
		ix.kept.room(seqs, stride)
	}
	for i := range b.entries {
		e := &b.entries[i]
		context := e.context()
		ix.fillRows(e, context, slots)
		ix.lens.host = append(ix.lens.host, uint32(context))
		ix.queries = append(ix.queries, uint32(e.tokens))
		ix.offsets.host = append(ix.offsets.host, ix.offsets.host[i]+uint32(e.tokens))
		row, used := ix.fresh.row(i), ceilDiv(context, slots)
		e.table(row[:used])
		clear(row[used:]) // never read: the context ends before it
		if b.pool.windowed() {
			e.olderTable(ix.kept.row(i))
		}
	}
	clear(ix.fresh.tables.host[len(b.entries)*stride:])
	if b.pool.windowed() {
		clear(ix.kept.tables.host[len(b.entries)*stride:])
	}
	ix.pad(&b.fixed)
}

// room makes room for the tables of so many sequences.
func (t *partial[B]) room(seqs, stride int) {
	t.stride = stride
	t.tables.host = slices.Grow(t.tables.host[:0], seqs*stride)[:seqs*stride]
}

func (t *partial[B]) row(i int) []uint32 { return t.tables.host[i*t.stride:][:t.stride] }

// fillRows appends the positions and the slots of an entry's rows.
func (ix *index[B]) fillRows(e *entry[B], context, slots int) {
	behind := e.seq.places.next - e.seq.len         // positions of tokens that were dropped
	for pos := context - e.tokens; pos < context; { // a block at a time
		end := min(context, pos-pos%slots+slots)
		slot := int64(e.block(pos/slots))*int64(slots) + int64(pos%slots)
		for i := range end - pos {
			ix.positions.host = append(ix.positions.host, uint32(pos+behind+i))
			ix.slots.host = append(ix.slots.host, slot+int64(i))
		}
		pos = end
	}
}

// planAttend asks the device how it divides the step.
func (b *Batch[B]) planAttend() error {
	p := b.pool
	if err := b.divide(p.fresh, &b.index.fresh); err != nil || !p.windowed() {
		return err
	}
	return b.divide(p.kept, &b.index.kept)
}

// divide asks how attention to what lies in a store is divided.
func (b *Batch[B]) divide(st *store[B], t *partial[B]) error {
	p, c, m, ix := b.pool, &b.pool.cfg, b.layerMask(), &b.index
	fixed := b.fixed.seqs > 0
	var table []uint32 // where common prefixes are to be looked for
	if c.MinShared > 0 || c.MinShared == 0 && !fixed {
		table = t.tables.host
	}
	if t.divisions == nil {
		t.divisions = make([]division[B], len(st.formats))
	}
	split := &st.layers[0].mask
	for i := range t.divisions {
		d := &t.divisions[i]
		plan, err := p.be.PlanAttend(backend.AttendShape{
			QHeads: c.QHeads, KVHeads: c.KVHeads, KDim: c.HeadDim, VDim: c.VHeadDim, BlockSize: c.slots(),
			Format: st.formats[i], ContextLens: ix.lens.host, QueryLens: ix.queries,
			Window: m.Window, SinkTokens: m.SinkTokens, Part: split.Part, Recent: split.Recent, Mass: b.mass && !p.windowed(), Work: d.work.host[:0],
			Table: table, TableStride: t.stride, MinShared: max(c.MinShared, 0), Fixed: fixed,
		})
		if err != nil {
			return err
		}
		d.plan, d.work.host = plan, plan.Work
	}
	return nil
}

// upload brings the host side to the device and makes room for the workspace.
func (ix *index[B]) upload(be backend.Backend[B], s backend.Stream) error {
	for _, v := range [...]*vector[B, uint32]{&ix.positions, &ix.lens, &ix.offsets} {
		if err := v.upload(be, s); err != nil {
			return err
		}
	}
	if err := ix.slots.upload(be, s); err != nil {
		return err
	}
	space := 0 // one layer after another uses it
	for _, t := range [...]*partial[B]{&ix.fresh, &ix.kept} {
		if len(t.divisions) == 0 {
			continue
		}
		if err := t.tables.upload(be, s); err != nil {
			return err
		}
		for i := range t.divisions {
			if err := t.divisions[i].work.upload(be, s); err != nil {
				return err
			}
			space = max(space, t.divisions[i].plan.Workspace)
		}
	}
	return ix.workspace.fit(be, space)
}

func (ix *index[B]) tokens() int { return len(ix.slots.host) }

// ragged is the step's sequences as they lie in a store.
func (ix *index[B]) ragged(t *partial[B]) backend.Ragged[B] {
	return backend.Ragged[B]{
		Seqs: len(ix.lens.host), Tokens: ix.tokens(), Table: t.tables.buf, TableStride: t.stride,
		ContextLens: ix.lens.buf.Buf, QueryOffsets: ix.offsets.buf,
	}
}

func (ix *index[B]) free(be backend.Backend[B]) {
	for _, v := range [...]*vector[B, uint32]{&ix.positions, &ix.fresh.tables, &ix.kept.tables, &ix.lens, &ix.offsets, &ix.pairs} {
		v.free(be)
	}
	for _, t := range [...]*partial[B]{&ix.fresh, &ix.kept} {
		for i := range t.divisions {
			t.divisions[i].work.free(be)
		}
	}
	ix.slots.free(be)
	ix.workspace.free(be)
}

// Index is a planned step as kernels of the runner's own read it: the device
// vectors, valid until the step is planned again or closed.
type Index[B backend.Buffer] struct {
	backend.Ragged[B]
	Slots     B // I64 [Tokens]
	Positions B // U32 [Tokens]
}

// Index returns the index vectors of the planned step. From here on the runner may
// write keys and values by itself, on the step's stream, and Commit does not ask
// whether every layer got some.
func (b *Batch[B]) Index() (Index[B], error) {
	if err := b.want("index", stepPlanned); err != nil {
		return Index[B]{}, err
	}
	if b.pool.windowed() {
		return Index[B]{}, twoPlaces("index")
	}
	b.foreign = true
	return Index[B]{Ragged: b.index.ragged(&b.index.fresh), Slots: b.index.slots.buf.Buf, Positions: b.index.positions.buf.Buf}, nil
}
