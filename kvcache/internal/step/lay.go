package step

import "slices"

// Lay computes the host side for the step's entries, whose blocks are taken.
func (b *Step[B]) Lay() {
	ix, p := &b.Index, b.Part
	slots, kernel, piece := p.Config.BlockTokens(), p.Config.KernelTokens(), p.Piece()
	ix.Slots.Host, ix.Positions.Host = ix.Slots.Host[:0], ix.Positions.Host[:0]
	ix.Lens.Host, ix.queries = ix.Lens.Host[:0], ix.queries[:0]
	ix.Offsets.Host = append(ix.Offsets.Host[:0], 0)
	gapped, most := p.Slides() && piece == 0, p.MostTokens(b.Size.Tokens)
	if gapped {
		most += mostGap(&p.Rule)
	}
	most = p.Config.KernelBlocksOf(min(most, p.Config.Memory.Capacity))
	stride := min(2, most) // a device finds one block and many in different ways: a pool's steps in one of them
	longest, seqs := 0, len(b.entries)
	for i := range b.entries {
		e := &b.entries[i]
		if e.gap = 0; gapped {
			e.gap = gapOf(&p.Rule, p.SinkBlocks(), e.run.Gone)
		}
		longest = max(longest, e.context()+e.gap)
		if piece > 0 {
			seqs += e.pieces(piece) - 1
		}
	}
	if b.spelled {
		seqs = b.pieces()
	}
	stride = max(stride, p.Config.KernelBlocksOf(longest))
	if b.Size.Seqs > 0 {
		seqs, stride = b.Size.Seqs, most
	}
	for i := range ix.at {
		ix.at[i].room(seqs, stride)
	}
	rows := 0
	if b.spelled {
		rows = b.layCalls()
	}
	for i := 0; i < len(b.entries) && !b.spelled; i++ {
		e := &b.entries[i]
		context := e.context()
		ix.fillRows(e, context-e.tokens, context, slots)
		if piece > 0 {
			rows = b.layPieces(e, piece, rows)
			continue
		}
		ix.piece(context+e.gap, e.tokens)
		row, used := ix.Written().row(rows), (context+e.gap+kernel-1)/kernel
		e.table(row[:used])
		clear(row[used:]) // never read: the context ends before it
		e.sealedTables(ix, rows, 0)
		rows++
	}
	for i := range ix.at {
		clear(ix.at[i].Tables.Host[rows*stride:])
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

// pieces is the number of sequences that attention takes an entry for in a part that is laid out in pieces: one for each that
// its rows are in.
func (e *entry[B]) pieces(piece int) int {
	end := e.context() + e.gone()
	return (end-1)/piece - (end-e.tokens)/piece + 1
}

// layPieces lays an entry out in pieces. To its rows in a piece it is a sequence that begins there.
func (b *Step[B]) layPieces(e *entry[B], piece, rows int) int {
	ix, p := &b.Index, b.Part
	r, gone := &p.Rule, e.gone()
	end := e.context() + gone
	for at := end - e.tokens; at < end; rows++ {
		begin := at - at%piece
		to := min(begin+piece, end)
		ix.piece(to-begin, to-at)
		row := ix.Written().row(rows)
		used := p.Config.KernelBlocksOf(to - begin)
		e.places(row[:used], (begin-gone)/r.Block)
		clear(row[used:])
		e.sealedTables(ix, rows, (begin-gone)/r.Block)
		at = to
	}
	return rows
}

// room makes room for the tables of seqs sequences.
func (t *partial[B]) room(seqs, stride int) {
	t.Stride = stride
	t.Tables.Host = slices.Grow(t.Tables.Host[:0], seqs*stride)[:seqs*stride]
}

func (t *partial[B]) row(i int) []uint32 { return t.Tables.Host[i*t.Stride:][:t.Stride] }

// fillRows appends the positions and the slots of an entry's rows from one token to another.
func (ix *Index[B]) fillRows(e *entry[B], pos, to, slots int) {
	for pos < to { // a block at a time
		end := min(to, pos-pos%slots+slots)
		slot := e.run.Part.Written.Slot(e.block(pos/slots), pos%slots)
		for i := range end - pos {
			ix.Positions.Host = append(ix.Positions.Host, uint32(pos+e.dropped+i))
			ix.Slots.Host = append(ix.Slots.Host, slot+int64(i))
		}
		pos = end
	}
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
