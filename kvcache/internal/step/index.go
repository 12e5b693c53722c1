package step

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// Index is the integer side of a step, on the host and on the device: where rows
// go, where sequences lie, how the work is divided.
type Index[B backend.Buffer] struct {
	Slots     store.Vector[B, int64]  // [tokens]
	Positions store.Vector[B, uint32] // [tokens]
	at        []partial[B]            // of each store
	Lens      store.Vector[B, uint32] // [seqs]
	Offsets   store.Vector[B, uint32] // [seqs+1]
	views     store.Vector[B, uint32] // [tokens, 2], of a step with views
	tree      store.Vector[B, uint32] // [tokens, words], of a step with trees
	Pairs     store.Vector[B, uint32] // [copies, 2]
	workspace store.Vector[B, float32]
	seen      backend.Opt[B] // views of a step that has some
	grown     backend.Opt[B] // tree of a step that has some
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

// Written is where sequences lie in the store that the step writes to.
func (ix *Index[B]) Written() *partial[B] { return &ix.at[len(ix.at)-1] }

// sealed are the others.
func (ix *Index[B]) sealed() []partial[B] { return ix.at[:len(ix.at)-1] }

// Upload brings the host side to the device, in one piece, and makes room for the workspace.
func (ix *Index[B]) Upload(be backend.Backend[B], s backend.Stream) error {
	if !ix.arena.Made() {
		ix.arena.Of(ix.vectors())
	}
	if err := ix.arena.Upload(be, s); err != nil {
		return err
	}
	space := 0 // one layer after another uses it
	for at := range ix.at {
		t := &ix.at[at]
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
	for at := range ix.at {
		t := &ix.at[at]
		for i := range t.divisions {
			members = append(members, &t.divisions[i].work)
		}
	}
	for at := range ix.at {
		members = append(members, &ix.at[at].Tables)
	}
	return members
}

// Bytes is what a step uploads at least.
func (ix *Index[B]) Bytes() int { return ix.arena.Bytes() }

func (ix *Index[B]) tokens() int { return len(ix.Slots.Host) }

// ragged is the step's sequences as they lie in a store.
func (ix *Index[B]) ragged(t *partial[B]) backend.Ragged[B] {
	return backend.Ragged[B]{
		Seqs: len(ix.Lens.Host), Tokens: ix.tokens(), Table: t.Tables.Buf, TableStride: t.Stride,
		ContextLens: ix.Lens.Buf.Buf, QueryOffsets: ix.Offsets.Buf, Views: ix.seen, Tree: ix.grown, TreeWords: ix.words,
	}
}

func (ix *Index[B]) free(be backend.Backend[B]) {
	ix.arena.Free(be)
	ix.views.Free(be)
	ix.tree.Free(be)
	ix.Pairs.Free(be)
	ix.workspace.Free(be)
}

// Device is the step's sequences as they lie in the kept store and in the written one.
func (b *Step[B]) Device() (kept, written backend.Ragged[B]) {
	return b.Index.ragged(&b.Index.at[0]), b.Index.ragged(b.Index.Written())
}
