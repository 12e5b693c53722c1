package step

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// Set is one step in all parts.
type Set[B backend.Buffer] struct {
	parts *store.Parts[B]
	settings

	Steps  []Step[B] // of the parts
	writes bool      // there are new tokens
	reads  bool      // there are sequences without
}

// Make makes b, which stays where it is, an empty step.
func (b *Set[B]) Make(p *store.Parts[B]) {
	b.parts, b.Steps = p, make([]Step[B], len(p.All))
	for i := range b.Steps {
		b.Steps[i].Part, b.Steps[i].settings = p.All[i], &b.settings
		b.Steps[i].work = workOf(&b.Steps[i])
		b.Steps[i].Index.at = make([]partial[B], len(p.All[i].Stores))
	}
}

// workOf is what a step does in its part.
func workOf[B backend.Buffer](b *Step[B]) work {
	switch {
	case b.Part.States != nil:
		return states[B]{b}
	case b.Part.Residual():
		return both[B]{rows[B]{b}}
	}
	return rows[B]{b}
}

// Add gives a sequence rows: new ones or, unless write is set, queries at its last tokens. next is the position of
// its next token.
func (b *Set[B]) Add(s *store.Runs[B], tokens int, write bool, next int) {
	for i := range b.Steps {
		e := b.Steps[i].add()
		e.run, e.tokens, e.write, e.dropped = &s.In[i], tokens, write, next-s.In[i].Len
		e.lowest = s.In[i].Len - tokens
	}
	b.reads = b.reads || !write
	if b.spelled {
		b.calls.calls = append(b.calls.calls, call{entry: len(b.Steps[0].entries) - 1, tokens: tokens})
	}
}

// Rows is the number of rows: of all places of a step of a fixed shape, empty ones included.
func (b *Set[B]) Rows() (n int) {
	if b.Size.Seqs > 0 {
		return b.Size.Seqs * b.Size.Tokens
	}
	for i := range b.Steps[0].entries {
		n += b.Steps[0].entries[i].tokens
	}
	return n
}

// Of is the step of a layer's part, and which of its layers it is.
func (b *Set[B]) Of(layer int) (*Step[B], int) {
	at := b.parts.Layers[layer]
	return &b.Steps[at.Part], at.Layer
}

// Writes reports whether the planned step has new tokens.
func (b *Set[B]) Writes() bool { return b.writes }

// New is how many new tokens the sequence of entry i gets.
func (b *Set[B]) New(i int) int { return b.Steps[0].entries[i].grows() }

// Restores reports whether entry i has new tokens, and read, as they were computed, tokens that were brought back.
func (b *Set[B]) Restores(i int) bool {
	for j := range b.Steps {
		if e := &b.Steps[j].entries[i]; e.write && e.restored > 0 {
			return true
		}
	}
	return false
}

// runs are those of entry i's sequence.
func (b *Set[B]) runs(i int) *store.Runs[B] { return b.Steps[0].entries[i].run.Of }

// Publishes is the number of entries of the prefix tree that the sequence of entry i fills once the step is committed.
func (b *Set[B]) Publishes(i int) int {
	size := b.parts.Config.EntryTokens()
	n := b.Len(i) / size
	for j := range b.Steps {
		e := &b.Steps[j].entries[i]
		n = min(n, (e.publishes()+e.run.Gone)*e.run.Part.Rule.Block/size)
	}
	return n
}

// Len is the tokens that the sequence of entry i has once the step is committed.
func (b *Set[B]) Len(i int) int {
	return b.runs(i).Len() + b.New(i)
}

// Long reports whether the layers of a part of the planned step use one cache in turn.
func (b *Set[B]) Long() bool {
	for i := range b.Steps {
		if b.Steps[i].staging.on {
			return true
		}
	}
	return false
}

// Own enters what the step holds in the books of each part, and what it took, if it is open.
func (b *Set[B]) Own(books []store.Books, open bool) {
	for i := range b.Steps {
		b.Steps[i].own(books[i], open)
	}
}

// Free ends the lives of the step's vectors.
func (b *Set[B]) Free() {
	for i := range b.Steps {
		b.Steps[i].free()
	}
}
