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
func (e *entry[B]) local(v view) view {
	sinks, gone := e.run.Cut()
	if gone == 0 {
		return v
	}
	if v.end > sinks {
		v.end = max(v.end-gone, sinks)
	}
	return view{max(v.position-gone, 0), v.end}
}

// laid is a view in the places of the entry's table.
func (e *entry[B]) laid(v view) view {
	v = e.local(v)
	if sinks, _ := e.run.Cut(); v.end > sinks {
		v.end += e.gap
	}
	return view{v.position + e.gap, v.end}
}

// seen is what row i of a call sees, as tokens of the sequence.
func (b *Step[B]) seen(c *call, e *entry[B], i int) view {
	if c.view > 0 {
		return b.views[c.view-1+i]
	}
	at := e.run.Total() + c.at
	if b.Part.Config.Model.NonCausal {
		return view{at + i, at + c.tokens}
	}
	return view{at + i, at + i + 1}
}

// piece is the rows of a call from row i on that are in the same piece, of size tokens, and where that begins.
func (b *Step[B]) piece(c *call, e *entry[B], i, size int) (rows, begin int) {
	of := b.seen(c, e, i).position / size
	for rows = 1; i+rows < c.tokens && b.seen(c, e, i+rows).position/size == of; rows++ {
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
		for i := 0; i < c.tokens; n++ {
			rows, _ := b.piece(c, &b.entries[c.entry], i, size)
			i += rows
		}
	}
	return n
}

// layCalls lays the calls out, and returns how many sequences they are to attention.
func (b *Step[B]) layCalls() (rows int) {
	ix, piece := &b.Index, b.Part.Piece()
	ix.views.Host, ix.tree.Host = ix.views.Host[:0], ix.tree.Host[:0]
	for j := range b.calls.calls {
		c := &b.calls.calls[j]
		e := &b.entries[c.entry]
		b.fillCall(c, e)
		if piece > 0 {
			rows = b.layCallPieces(c, e, piece, rows)
			continue
		}
		context := e.run.Len
		if e.write {
			context += c.at + c.tokens
		}
		b.layPiece(c, e, 0, c.tokens, 0, context, rows)
		rows++
	}
	return rows
}

// layCallPieces lays a call out in pieces. To its rows in a piece it is a sequence that begins there.
func (b *Step[B]) layCallPieces(c *call, e *entry[B], piece, rows int) int {
	total := e.run.Total()
	if e.write {
		total += c.at + c.tokens
	}
	for i := 0; i < c.tokens; rows++ {
		n, begin := b.piece(c, e, i, piece)
		b.layPiece(c, e, i, n, begin-e.gone(), min(max(total-begin, 0), piece), rows)
		i += n
	}
	return rows
}

// layPiece lays out n rows of a call from one on. To them the sequence begins at a token of the part, a block's first, and
// has so many.
func (b *Step[B]) layPiece(c *call, e *entry[B], from, n, begin, context, at int) {
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
			ix.views.Host = append(ix.views.Host, uint32(v.position-begin), uint32(min(max(v.end-begin, 0), context)))
		}
	}
}

// fillCall appends the slots and positions of a call's rows, and what nodes of trees see of each other.
func (b *Step[B]) fillCall(c *call, e *entry[B]) {
	ix := &b.Index
	if e.write {
		ix.fillRows(e, e.run.Len+c.at, e.run.Len+c.at+c.tokens, b.Part.Config.BlockTokens())
	} else {
		for range c.tokens {
			ix.Slots.Host, ix.Positions.Host = append(ix.Slots.Host, -1), append(ix.Positions.Host, 0)
		}
	}
	if c.tree > 0 || !e.write {
		to, gone := ix.Positions.Host[len(ix.Positions.Host)-c.tokens:], e.gone()
		for i := range to {
			to[i] = uint32(b.seen(c, e, i).position - gone + e.dropped)
		}
	}
	if b.words == 0 {
		return
	}
	first := len(ix.tree.Host)
	ix.tree.Host = slices.Grow(ix.tree.Host, c.tokens*b.words)[:first+c.tokens*b.words]
	bits := ix.tree.Host[first:]
	clear(bits)
	for i := 0; i < c.tokens && c.tree > 0; i++ {
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
		if err := ix.views.Upload(p.BE, b.Stream); err != nil {
			return err
		}
		ix.seen = ix.views.Buf
	}
	if b.words > 0 {
		if err := ix.tree.Upload(p.BE, b.Stream); err != nil {
			return err
		}
		ix.grown = ix.tree.Buf
	}
	return nil
}
