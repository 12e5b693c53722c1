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
	tables    vector[B, uint32] // [seqs, stride]
	lens      vector[B, uint32] // [seqs]
	offsets   vector[B, uint32] // [seqs+1]
	pairs     vector[B, uint32] // [copies, 2]
	divisions []division[B]     // one for each format of the pool's layers
	workspace vector[B, float32]
	queries   []uint32 // [seqs], host only
	stride    int
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
	ix.lens.host, ix.queries, ix.tables.host = ix.lens.host[:0], ix.queries[:0], ix.tables.host[:0]
	ix.offsets.host = append(ix.offsets.host[:0], 0)
	ix.stride = 1
	for i := range b.entries {
		ix.stride = max(ix.stride, ceilDiv(b.entries[i].context(), slots))
	}
	seqs := len(b.entries)
	if b.fixed.seqs > 0 {
		seqs, ix.stride = b.fixed.seqs, ceilDiv(b.pool.cfg.Capacity, slots)
	}
	table := slices.Grow(ix.tables.host, seqs*ix.stride)[:seqs*ix.stride]
	for i := range b.entries {
		e := &b.entries[i]
		context := e.context()
		ix.fillRows(e, context, slots, b.recent != nil)
		ix.lens.host = append(ix.lens.host, uint32(context))
		ix.queries = append(ix.queries, uint32(e.tokens))
		ix.offsets.host = append(ix.offsets.host, ix.offsets.host[i]+uint32(e.tokens))
		row, used := table[i*ix.stride:][:ix.stride], ceilDiv(context, slots)
		e.table(row[:used])
		clear(row[used:]) // never read: the context ends before it
	}
	clear(table[len(b.entries)*ix.stride:])
	ix.tables.host = table
	ix.pad(&b.fixed)
}

// fillRows appends the positions and the slots of an entry's rows. The tokens of queries
// alone lie elsewhere.
func (ix *index[B]) fillRows(e *entry[B], context, slots int, queries bool) {
	behind := e.seq.places.next - e.seq.len // positions of tokens that were dropped
	for pos := context - e.tokens; pos < context; {
		first, end := int64(-1), context
		if !queries { // a block at a time
			end = min(context, pos-pos%slots+slots)
			first = int64(e.block(pos/slots))*int64(slots) + int64(pos%slots)
		}
		for i := range end - pos {
			ix.positions.host = append(ix.positions.host, uint32(pos+behind+i))
			slot := first
			if !queries {
				slot += int64(i)
			}
			ix.slots.host = append(ix.slots.host, slot)
		}
		pos = end
	}
}

// planAttend asks the device how it divides the step.
func (ix *index[B]) planAttend(p *Pool[B], m Mask, mass, fixed bool) error {
	c := &p.cfg
	var table []uint32 // where common prefixes are to be looked for
	if c.MinShared > 0 || c.MinShared == 0 && !fixed {
		table = ix.tables.host
	}
	if ix.divisions == nil {
		ix.divisions = make([]division[B], len(p.formats))
	}
	for i := range ix.divisions {
		d := &ix.divisions[i]
		plan, err := p.be.PlanAttend(backend.AttendShape{
			QHeads: c.QHeads, KVHeads: c.KVHeads, KDim: c.HeadDim, VDim: c.VHeadDim, BlockSize: c.slots(),
			Format: p.formats[i], ContextLens: ix.lens.host, QueryLens: ix.queries,
			NonCausal: c.Residual > 0, Window: m.Window, SinkTokens: m.SinkTokens, Mass: mass, Work: d.work.host[:0],
			Table: table, TableStride: ix.stride, MinShared: max(c.MinShared, 0), Fixed: fixed,
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
	for _, v := range [...]*vector[B, uint32]{&ix.positions, &ix.tables, &ix.lens, &ix.offsets} {
		if err := v.upload(be, s); err != nil {
			return err
		}
	}
	if err := ix.slots.upload(be, s); err != nil {
		return err
	}
	space := 0 // one layer after another uses it
	for i := range ix.divisions {
		if err := ix.divisions[i].work.upload(be, s); err != nil {
			return err
		}
		space = max(space, ix.divisions[i].plan.Workspace)
	}
	return ix.workspace.fit(be, space)
}

func (ix *index[B]) tokens() int { return len(ix.slots.host) }

func (ix *index[B]) ragged() backend.Ragged[B] {
	return backend.Ragged[B]{
		Seqs: len(ix.lens.host), Tokens: ix.tokens(), Table: ix.tables.buf, TableStride: ix.stride,
		ContextLens: ix.lens.buf.Buf, QueryOffsets: ix.offsets.buf,
	}
}

func (ix *index[B]) free(be backend.Backend[B]) {
	for _, v := range [...]*vector[B, uint32]{&ix.positions, &ix.tables, &ix.lens, &ix.offsets, &ix.pairs} {
		v.free(be)
	}
	for i := range ix.divisions {
		ix.divisions[i].work.free(be)
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
	if b.recent != nil {
		return Index[B]{}, twoTiers("index")
	}
	b.foreign = true
	return Index[B]{Ragged: b.index.ragged(), Slots: b.index.slots.buf.Buf, Positions: b.index.positions.buf.Buf}, nil
}
