package step

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// Index is the integer side of a step, on the host and on the device: where rows
// go, where sequences lie, how the work is divided.
type Index[B backend.Buffer] struct {
	Slots     store.Vector[B, int64]  // [tokens]
	Positions store.Vector[B, uint32] // [tokens]
	Fresh     partial[B]              // of the store that the step writes to
	Older     partial[B]              // of the other one, if there is one
	Lens      store.Vector[B, uint32] // [seqs]
	Offsets   store.Vector[B, uint32] // [seqs+1]
	Views     store.Vector[B, uint32] // [tokens, 2], of a step with views
	Tree      store.Vector[B, uint32] // [tokens, words], of a step with trees
	Pairs     store.Vector[B, uint32] // [copies, 2]
	workspace store.Vector[B, float32]
	views     backend.Opt[B] // Views of a step that has some
	tree      backend.Opt[B] // Tree of a step that has some
	words     int            // of a row of tree
	queries   []uint32       // [seqs], host only
	arena     store.Arena[B] // where those are that every step uploads
}

// partial is where sequences lie in a store, and how attention to that is divided.
type partial[B backend.Buffer] struct {
	Tables    store.Vector[B, uint32] // [seqs, stride]
	Stride    int
	divisions []division[B] // one for each format of the store's layers
}

// division is how the device divides the attention of a step over layers of one format.
type division[B backend.Buffer] struct {
	plan backend.AttendPlan
	work store.Vector[B, uint32]
}

// Lay computes the host side for the step's entries, whose blocks are taken.
func (b *Step[B]) Lay() {
	ix, p := &b.Index, b.Stores
	slots, kernel, chunked := p.Config.BlockTokens(), p.Config.KernelTokens(), p.Rule.Kind == group.Chunked
	ix.Slots.Host, ix.Positions.Host = ix.Slots.Host[:0], ix.Positions.Host[:0]
	ix.Lens.Host, ix.queries = ix.Lens.Host[:0], ix.queries[:0]
	ix.Offsets.Host = append(ix.Offsets.Host[:0], 0)
	most := p.Config.KernelBlocksOf(p.MostTokens(b.Size.Tokens))
	stride := min(2, most) // a device finds one block and many in different ways: a pool's steps in one of them
	longest, seqs := 0, len(b.Entries)
	for i := range b.Entries {
		longest = max(longest, b.Entries[i].context())
		if chunked {
			seqs += b.Entries[i].pieces() - 1
		}
	}
	if b.spelled {
		seqs = b.pieces()
	}
	stride = max(stride, p.Config.KernelBlocksOf(longest))
	if b.Size.Seqs > 0 {
		seqs, stride = b.Size.Seqs, most
	}
	ix.Fresh.room(seqs, stride)
	if p.Windowed() {
		ix.Older.room(seqs, stride)
	}
	rows := 0
	if b.spelled {
		rows = b.layCalls()
	}
	for i := 0; i < len(b.Entries) && !b.spelled; i++ {
		e := &b.Entries[i]
		context := e.context()
		ix.fillRows(e, context-e.Tokens, context, slots)
		if chunked {
			rows = b.layChunks(e, rows)
			continue
		}
		ix.piece(context, e.Tokens)
		row, used := ix.Fresh.row(rows), (context+kernel-1)/kernel
		e.table(row[:used])
		clear(row[used:]) // never read: the context ends before it
		if p.Windowed() {
			e.olderTable(ix.Older.row(rows), 0)
		}
		rows++
	}
	clear(ix.Fresh.Tables.Host[rows*stride:])
	if p.Windowed() {
		clear(ix.Older.Tables.Host[rows*stride:])
	}
	ix.pad(b.Size)
	ix.arena.Pinned = b.Pinned
}

// piece appends the length of a sequence, and how many rows it has.
func (ix *Index[B]) piece(context, tokens int) {
	ix.Lens.Host = append(ix.Lens.Host, uint32(context))
	ix.queries = append(ix.queries, uint32(tokens))
	ix.Offsets.Host = append(ix.Offsets.Host, ix.Offsets.Host[len(ix.Offsets.Host)-1]+uint32(tokens))
}

// pieces is the number of sequences that attention takes an entry for in a part with chunks: one for each that its rows are
// in.
func (e *Entry[B]) pieces() int {
	r := &e.Body.Stores.Rule
	end := e.context() + e.Body.Gone*r.Block
	return (end-1)/r.Chunk - (end-e.Tokens)/r.Chunk + 1
}

// layChunks lays an entry out in a part with chunks. To its rows in a chunk it is a sequence that begins there.
func (b *Step[B]) layChunks(e *Entry[B], rows int) int {
	ix, p := &b.Index, b.Stores
	r, gone := &p.Rule, e.Body.Gone*p.Rule.Block
	end := e.context() + gone
	for at := end - e.Tokens; at < end; rows++ {
		begin := at - at%r.Chunk
		to := min(begin+r.Chunk, end)
		ix.piece(to-begin, to-at)
		row := ix.Fresh.row(rows)
		used := p.Config.KernelBlocksOf(to - begin)
		e.places(row[:used], (begin-gone)/r.Block)
		clear(row[used:])
		if p.Windowed() {
			e.olderTable(ix.Older.row(rows), (begin-gone)/r.Block)
		}
		at = to
	}
	return rows
}

// room makes room for the tables of so many sequences.
func (t *partial[B]) room(seqs, stride int) {
	t.Stride = stride
	t.Tables.Host = slices.Grow(t.Tables.Host[:0], seqs*stride)[:seqs*stride]
}

func (t *partial[B]) row(i int) []uint32 { return t.Tables.Host[i*t.Stride:][:t.Stride] }

// fillRows appends the positions and the slots of an entry's rows from one token to another.
func (ix *Index[B]) fillRows(e *Entry[B], pos, to, slots int) {
	for pos < to { // a block at a time
		end := min(to, pos-pos%slots+slots)
		slot := e.Body.Stores.Fresh.Slot(e.block(pos/slots), pos%slots)
		for i := range end - pos {
			ix.Positions.Host = append(ix.Positions.Host, uint32(pos+e.Dropped+i))
			ix.Slots.Host = append(ix.Slots.Host, slot+int64(i))
		}
		pos = end
	}
}

// Divide asks the device how it divides the step.
func (b *Step[B]) Divide() error {
	p := b.Stores
	if err := b.divide(p.Fresh, &b.Index.Fresh); err != nil || !p.Windowed() {
		return err
	}
	return b.divide(p.Kept, &b.Index.Older)
}

// divide asks how attention to what lies in a store is divided.
func (b *Step[B]) divide(st *store.Store[B], t *partial[B]) error {
	p, c, m, ix := b.Stores, &b.Stores.Config, b.widest(), &b.Index
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
		views = ix.Views.Host
	}
	for i := range t.divisions {
		d := &t.divisions[i]
		plan, err := p.BE.PlanAttend(backend.AttendShape{
			QHeads: c.Model.QHeads, KVHeads: c.Model.KVHeads, KDim: c.Model.HeadDim, VDim: c.Model.VHeadDim, BlockSize: c.KernelTokens(),
			Format: st.Formats[i], Latent: c.Model.Latent, ContextLens: ix.Lens.Host, QueryLens: ix.queries,
			NonCausal: split.NonCausal && !b.sees, Window: m.Window, SinkTokens: m.SinkTokens, Chunk: m.Chunk, Views: views, TreeWords: b.words, Part: split.Part, Residual: split.Residual, Scores: b.Mass && (!p.Windowed() || c.Attention.Scores), Work: d.work.Host[:0],
			Table: table, TableStride: t.Stride, MinShared: max(c.Attention.MinShared, 0), Fixed: fixed,
		})
		if err != nil {
			return err
		}
		d.plan, d.work.Host = plan, plan.Work
	}
	return nil
}

// Upload brings the host side to the device, in one piece, and makes room for the workspace.
func (ix *Index[B]) Upload(be backend.Backend[B], s backend.Stream) error {
	if !ix.arena.Made() {
		ix.arena.Of(ix.vectors())
	}
	if err := ix.arena.Upload(be, s); err != nil {
		return err
	}
	space := 0 // one layer after another uses it
	for _, t := range [...]*partial[B]{&ix.Fresh, &ix.Older} {
		for i := range t.divisions {
			d := &t.divisions[i]
			d.plan.Work = d.work.Host // which may have moved
			space = max(space, d.plan.Workspace)
		}
	}
	return ix.workspace.Fit(be, space)
}

// vectors are those of every step, the largest last.
func (ix *Index[B]) vectors() []store.Member[B] {
	members := []store.Member[B]{&ix.Slots, &ix.Positions, &ix.Lens, &ix.Offsets}
	for _, t := range [...]*partial[B]{&ix.Fresh, &ix.Older} {
		for i := range t.divisions {
			members = append(members, &t.divisions[i].work)
		}
	}
	if len(ix.Older.divisions) > 0 {
		members = append(members, &ix.Older.Tables)
	}
	return append(members, &ix.Fresh.Tables)
}

// Bytes is what a step uploads at least.
func (ix *Index[B]) Bytes() int { return ix.arena.Bytes() }

func (ix *Index[B]) tokens() int { return len(ix.Slots.Host) }

// ragged is the step's sequences as they lie in a store.
func (ix *Index[B]) ragged(t *partial[B]) backend.Ragged[B] {
	return backend.Ragged[B]{
		Seqs: len(ix.Lens.Host), Tokens: ix.tokens(), Table: t.Tables.Buf, TableStride: t.Stride,
		ContextLens: ix.Lens.Buf.Buf, QueryOffsets: ix.Offsets.Buf, Views: ix.views, Tree: ix.tree, TreeWords: ix.words,
	}
}

func (ix *Index[B]) free(be backend.Backend[B]) {
	ix.arena.Free(be)
	ix.Views.Free(be)
	ix.Tree.Free(be)
	ix.Pairs.Free(be)
	ix.workspace.Free(be)
}

// pad adds empty sequences until there are as many as all steps have.
func (ix *Index[B]) pad(of Size) {
	for len(ix.Lens.Host) < of.Seqs {
		ix.Lens.Host = append(ix.Lens.Host, 0)
		ix.queries = append(ix.queries, uint32(of.Tokens))
		ix.Offsets.Host = append(ix.Offsets.Host, uint32(len(ix.Slots.Host)+of.Tokens))
		for range of.Tokens {
			ix.Slots.Host, ix.Positions.Host = append(ix.Slots.Host, -1), append(ix.Positions.Host, 0)
		}
	}
}

// widest is the mask that the plan is made for: the widest of the layers'.
func (b *Step[B]) widest() config.Mask {
	widest := b.Stores.Config.Model.MaskOf(0)
	for _, m := range b.Stores.Config.Model.Masks {
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

// Device is the step's sequences as they lie in the kept store and in the fresh one.
func (b *Step[B]) Device() (kept, fresh backend.Ragged[B]) {
	fresh = b.Index.ragged(&b.Index.Fresh)
	if !b.Stores.Windowed() {
		return fresh, fresh
	}
	return b.Index.ragged(&b.Index.Older), fresh
}
