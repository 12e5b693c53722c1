package step

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

func argument(format string, args ...any) error {
	return backend.ErrArgument{Package: "kvcache", What: fmt.Sprintf(format, args...)}
}

// local is a view as the entry's part has the tokens, of which some may be cut out after the sinks.
func (e *Entry[B]) local(v View) View {
	sinks, gone := e.Run.Cut()
	if gone == 0 {
		return v
	}
	if v.End > sinks {
		v.End = max(v.End-gone, sinks)
	}
	return View{max(v.Position-gone, 0), v.End}
}

// laid is a view in the places of the entry's table.
func (e *Entry[B]) laid(v View) View {
	v = e.local(v)
	if sinks, _ := e.Run.Cut(); v.End > sinks {
		v.End += e.gap
	}
	return View{v.Position + e.gap, v.End}
}

// seen is what row i of a call sees, as tokens of the sequence.
func (b *Step[B]) seen(c *Call, e *Entry[B], i int) View {
	if c.view > 0 {
		return b.views[c.view-1+i]
	}
	at := e.Run.Total() + c.At
	if b.Part.Config.Model.NonCausal {
		return View{at + i, at + c.Tokens}
	}
	return View{at + i, at + i + 1}
}

// piece is the rows of a call from row i on that are in the same piece, of size tokens, and where that begins.
func (b *Step[B]) piece(c *Call, e *Entry[B], i, size int) (rows, begin int) {
	of := b.seen(c, e, i).Position / size
	for rows = 1; i+rows < c.Tokens && b.seen(c, e, i+rows).Position/size == of; rows++ {
	}
	return rows, of * size
}

// pieces is how many sequences attention takes the step's calls for.
func (b *Step[B]) pieces() (n int) {
	size := b.Part.Piece()
	if size == 0 {
		return len(b.calls.calls)
	}
	for j := range b.calls.calls {
		c := &b.calls.calls[j]
		for i := 0; i < c.Tokens; n++ {
			rows, _ := b.piece(c, &b.Entries[c.Entry], i, size)
			i += rows
		}
	}
	return n
}

// layCalls lays the calls out, and returns how many sequences they are to attention.
func (b *Step[B]) layCalls() (rows int) {
	ix, piece := &b.Index, b.Part.Piece()
	ix.Views.Host, ix.Tree.Host = ix.Views.Host[:0], ix.Tree.Host[:0]
	for j := range b.calls.calls {
		c := &b.calls.calls[j]
		e := &b.Entries[c.Entry]
		b.fillCall(c, e)
		if piece > 0 {
			rows = b.layCallPieces(c, e, piece, rows)
			continue
		}
		context := e.Run.Len
		if e.Write {
			context += c.At + c.Tokens
		}
		b.layPiece(c, e, 0, c.Tokens, 0, context, rows)
		rows++
	}
	return rows
}

// layCallPieces lays a call out in pieces. To its rows in a piece it is a sequence that begins there.
func (b *Step[B]) layCallPieces(c *Call, e *Entry[B], piece, rows int) int {
	total := e.Run.Total()
	if e.Write {
		total += c.At + c.Tokens
	}
	for i := 0; i < c.Tokens; rows++ {
		n, begin := b.piece(c, e, i, piece)
		b.layPiece(c, e, i, n, begin-e.gone(), min(max(total-begin, 0), piece), rows)
		i += n
	}
	return rows
}

// layPiece lays out n rows of a call from one on. To them the sequence begins at a token of the part, a block's first, and
// has so many.
func (b *Step[B]) layPiece(c *Call, e *Entry[B], from, n, begin, context, at int) {
	ix, p := &b.Index, b.Part
	context += e.gap
	ix.piece(context, n)
	row, used := ix.Written().row(at), p.Config.KernelBlocksOf(context)
	if first := begin / p.Config.BlockTokens(); first > 0 {
		e.places(row[:used], first)
	} else {
		e.table(row[:used])
	}
	clear(row[used:]) // never read: the context ends before it
	e.sealedTables(ix, at, begin/p.Config.BlockTokens())
	if b.sees {
		for i := range n {
			v := e.laid(b.seen(c, e, from+i))
			ix.Views.Host = append(ix.Views.Host, uint32(v.Position-begin), uint32(min(max(v.End-begin, 0), context)))
		}
	}
}

// fillCall appends the slots and positions of a call's rows, and what nodes of trees see of each other.
func (b *Step[B]) fillCall(c *Call, e *Entry[B]) {
	ix := &b.Index
	if e.Write {
		ix.fillRows(e, e.Run.Len+c.At, e.Run.Len+c.At+c.Tokens, b.Part.Config.BlockTokens())
	} else {
		for range c.Tokens {
			ix.Slots.Host, ix.Positions.Host = append(ix.Slots.Host, -1), append(ix.Positions.Host, 0)
		}
	}
	if c.tree > 0 || !e.Write {
		to, gone := ix.Positions.Host[len(ix.Positions.Host)-c.Tokens:], e.gone()
		for i := range to {
			to[i] = uint32(b.seen(c, e, i).Position - gone + e.Dropped)
		}
	}
	if b.words == 0 {
		return
	}
	first := len(ix.Tree.Host)
	ix.Tree.Host = slices.Grow(ix.Tree.Host, c.Tokens*b.words)[:first+c.Tokens*b.words]
	bits := ix.Tree.Host[first:]
	clear(bits)
	for i := 0; i < c.Tokens && c.tree > 0; i++ {
		row := bits[i*b.words:][:b.words]
		if parent := b.parents[c.tree-1+i]; parent >= 0 {
			copy(row, bits[parent*b.words:][:b.words])
		}
		row[i/treeBits] |= 1 << (i % treeBits)
	}
}

// uploadViews brings what rows see to the device: few steps have views, and the vectors of all steps do without their room.
func (b *Step[B]) uploadViews() error {
	ix, p := &b.Index, b.Part
	ix.seen, ix.grown, ix.words = backend.Opt[B]{}, backend.Opt[B]{}, b.words
	if b.sees {
		if err := ix.Views.Upload(p.BE, b.Stream); err != nil {
			return err
		}
		ix.seen = ix.Views.Buf
	}
	if b.words > 0 {
		if err := ix.Tree.Upload(p.BE, b.Stream); err != nil {
			return err
		}
		ix.grown = ix.Tree.Buf
	}
	return nil
}
