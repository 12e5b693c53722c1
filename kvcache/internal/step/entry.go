package step

import (
	"cmp"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// context is the entry's tokens in the cache, those of the step included.
func (e *entry[B]) context() int {
	if e.write {
		return e.run.Len + e.tokens
	}
	return e.run.Len
}

// first is the lowest position of the entry's queries.
func (e *entry[B]) first() int {
	if e.write {
		return e.run.Len
	}
	return e.lowest
}

// gone is the tokens that are cut out of the sequence in the entry's part.
func (e *entry[B]) gone() int {
	_, gone := e.run.Cut()
	return gone
}

// grows is how many tokens the sequence gets.
func (e *entry[B]) grows() int {
	if !e.write {
		return 0
	}
	return e.tokens - e.left
}

// needs is the number of blocks the entry has to take of the written store.
func (e *entry[B]) needs() int {
	if e.staged.long {
		return e.takes()
	}
	n := e.run.Part.BlocksOf(e.context()) - e.run.Written.End() + e.restored
	if e.copies {
		n++
	}
	return n
}

// block is the number of the entry's block at place i of its table of the written store, as it will be
// once the step is committed.
func (e *entry[B]) block(i int) uint32 {
	if e.staged.long {
		return e.stagedBlock(i)
	}
	g, fresh := e.run.Written, e.fresh.Blocks
	if i < g.From-e.restored {
		return 0
	}
	if i < g.From {
		return fresh[i-g.From+e.restored].ID
	}
	fresh = fresh[e.restored:]
	if e.copies {
		if i == e.run.Len/e.run.Part.Config.BlockTokens() {
			return fresh[0].ID
		}
		fresh = fresh[1:]
	}
	if i < g.End() {
		return g.At(i).ID
	}
	return fresh[i-g.End()].ID
}

// places writes the numbers of len(row) blocks of a kernel from the entry's block first on.
func (e *entry[B]) places(row []uint32, first int) {
	each, stride := e.run.Part.Config.Each(), e.run.Part.Config.Stride()
	for i := 0; i < len(row); first++ {
		number := e.block(first) * uint32(stride)
		for j := 0; j < each && i < len(row); i, j = i+1, j+1 {
			row[i] = number + uint32(j)
		}
	}
}

// table writes the entry's table, with its gap, into a row that ends where it does.
func (e *entry[B]) table(row []uint32) {
	e.numbers(row[e.gap/e.run.Part.Config.KernelTokens():])
	e.part(row)
}

// numbers writes the numbers of the entry's first len(row) blocks, as block has them; 0 for those
// that the store does not have, which no query sees.
func (e *entry[B]) numbers(row []uint32) {
	if e.staged.long {
		e.stagedTable(row)
		return
	}
	if e.run.Part.Config.Stride() > 1 {
		e.places(row, 0)
		return
	}
	g, fresh := e.run.Written, e.fresh.Blocks
	at := 0
	if g.From > 0 {
		at = min(g.From-e.restored, len(row))
		clear(row[:at])
		at += ids(row[at:], fresh[:e.restored])
		fresh = fresh[e.restored:]
	}
	n := at + ids(row[at:], g.Blocks)
	if e.copies {
		row[e.run.Len/e.run.Part.Config.BlockTokens()], fresh = fresh[0].ID, fresh[1:]
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

// publishes is the number of the sequence's full blocks once the step is committed.
func (e *entry[B]) publishes() int {
	n := (e.context() - e.left) / e.run.Part.Rule.Block
	for range e.run.Part.Sealed() {
		n = min(n, e.full+len(e.sealed.Blocks))
	}
	return n
}

// commit hands the step's blocks to the sequence, after the step's fence. They are the sequence's also
// with an error.
func (e *entry[B]) commit(f *residency.Fence) error {
	s := e.run
	if e.staged.long && !e.write {
		return nil
	}
	if e.staged.long {
		err := e.commitStaged(f)
		s.Grow(e.tokens)
		return cmp.Or(err, e.commitSealed(f))
	}
	var err error
	if len(e.fresh.Blocks) > 0 {
		err = e.commitTaken(f)
	}
	if !e.write {
		return err
	}
	s.Grow(e.grows())
	err = cmp.Or(err, e.commitSealed(f))
	if e.left > 0 {
		err = cmp.Or(err, s.Part.Written.CutTaken(s.Written, &e.fresh, s.Part.BlocksOf(s.Len), f))
	}
	return err
}

// commitTaken is commit of the blocks of the written store, of which there are some.
func (e *entry[B]) commitTaken(f *residency.Fence) (err error) {
	s, st, g, fresh := e.run, e.run.Part.Written, e.run.Written, e.fresh.Blocks
	if e.restored > 0 {
		st.Bring(g, fresh[:e.restored])
		fresh = fresh[e.restored:]
	}
	if e.copies {
		err = st.Replace(g, s.Part.Open(s.Len), fresh[0], f) // the step copies from the other
		fresh = fresh[1:]
	}
	st.Append(g, fresh)
	return err
}
