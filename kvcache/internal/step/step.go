// Package step is one step of a pool's sequences on the device, in each part of the layers: the blocks that it takes,
// where its rows go, how attention is divided, and what a layer enqueues. It knows sequences by their runs. What changes a
// run is called under the pool's lock; what only computes or enqueues is not: Append, Attend, QuantizeResidual, Leave.
package step

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// Step is a step in one part: the sequences that get new tokens, and the plan that serves all layers of the part. It is
// used again for every step: a warm one allocates nothing.
type Step[B backend.Buffer] struct {
	Part    *store.Part[B]
	entries []entry[B]
	Index   Index[B]
	*settings

	work    work
	fence   *residency.Fence // of the last step: its index vectors may still be read
	taken   []block.Block    // of the written store, by all entries
	writes  bool             // there are new tokens
	handed  bool             // the runner was told where states are
	sealing sealing[B]
	staging staging[B]
	states  store.Vector[B, uint32] // [seqs]: the blocks with the states of sequences
	moves   store.Vector[B, int64]  // [tokens, 2]: accepted ones of trees that go elsewhere
	none    none[B]
}

// none is operands that a call has not: all zero.
type none[B backend.Buffer] struct {
	rows      backend.Rows[B]
	rotary    backend.RotaryTable[B]
	positions backend.Opt[B]
}

// settings are what the steps of all parts have in common. The owner of the steps sets them between steps.
type settings struct {
	Mass   bool           // attention scores can be had
	Size   Size           // of all steps, if they are of one
	Pinned bool           // the index vectors stay where they are: something was captured that reads them
	Stream backend.Stream // of the plan
	calls
}

// Size is how many sequences a step has, and how many tokens of each; zero: steps differ.
type Size struct{ Seqs, Tokens int }

// entry is one sequence of a step, in a part: tokens are those that are not cut out there.
type entry[B backend.Buffer] struct {
	run     *store.Run[B]
	tokens  int  // rows of this sequence in the step
	write   bool // the rows are new; else they are queries
	dropped int  // positions that the sequence has had more than it has tokens

	lead   int // the entry that it has joined, +1; 0: none
	lowest int // of queries: the lowest of their positions
	left   int // new tokens that the sequence does not get: those of its tree that were not accepted
	gap    int // tokens of its table that are not there: see gapOf

	fresh    store.Owned // part of Step.taken
	need     int         // blocks of it
	copies   bool        // the first block after the restored ones replaces the shared block that the first row goes into
	restored int         // leading blocks that come before the segment's; of a long step, those that are brought back
	full     int         // leading blocks of the kept segment that stay
	staged   staged
	sealed   store.Owned // part of sealing.taken: blocks after those
}

// add is an entry more, which is empty: so clear left them.
func (b *Step[B]) add() *entry[B] {
	n := len(b.entries)
	if n == cap(b.entries) {
		b.entries = append(b.entries, entry[B]{})
	}
	b.entries = b.entries[:n+1]
	return &b.entries[n]
}

// clear forgets the entries, whose blocks were given back or committed.
func (b *Step[B]) clear() {
	clear(b.entries)
	b.entries, b.taken, b.sealing.taken = b.entries[:0], b.taken[:0], b.sealing.taken[:0]
}

// own enters what the step holds in the books of each store, and what it took, if it is open.
func (b *Step[B]) own(books store.Books, open bool) {
	books[0].Hold(b.fence)
	if open {
		books[0].Own(b.sealing.taken)
		books[len(books)-1].Own(b.taken)
	}
}

// free ends the lives of the step's vectors.
func (b *Step[B]) free() {
	b.states.Free(b.Part.BE)
	b.Index.free(b.Part.BE)
	b.moves.Free(b.Part.BE)
	b.sealing.free(b.Part.BE)
	b.staging.free(b.Part.BE)
}
