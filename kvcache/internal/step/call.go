package step

import "slices"

// A step is plain where each of its sequences is added once and each of its rows sees what is before it: its calls are then
// its entries. Else they are spelled out: rows lie in the order of calls, attention takes each of them for a sequence, and
// if rows of one have views, all have.

// calls are those of a step that is not plain.
type calls struct {
	calls   []Call
	views   []View // of the rows of calls that have some
	parents []int  // of the nodes of trees
	paths   []int  // the accepted nodes of trees
	spelled bool   // the step is not plain
	sees    bool   // rows have views
	words   int    // of treeBits nodes each that the largest tree has; 0: there is none
}

// treeBits is the nodes in a word of backend.Ragged.Tree.
const treeBits = 32

// EachCall tells of each call whose rows it has, and how many.
func (b *Step[B]) EachCall(do func(entry, rows int)) {
	for i := range b.calls.calls {
		do(b.calls.calls[i].Entry, b.calls.calls[i].Tokens)
	}
	for i := 0; i < len(b.Entries) && !b.spelled; i++ {
		do(i, b.Entries[i].Tokens)
	}
}

// Call is rows that were added together: new tokens of a sequence, or queries.
type Call struct {
	Entry  int // whose they are
	At     int // new tokens that the sequence gets in the step before these; of queries: rows that it has
	Tokens int

	view int // where the views of the rows begin, from 1 on; 0: they have none
	tree int // where the parents of the nodes begin, from 1 on; 0: the rows are no tree
	path int // where there is room for the accepted nodes, from 1 on; 0: nobody said which are
	kept int // how many are accepted
}

// View is what a row sees: of the tokens of its sequence those before End that masks let it see from Position.
type View struct{ Position, End int }

func (c *calls) last() *Call { return &c.calls[len(c.calls)-1] }

// clear makes the step plain.
func (c *calls) clear() {
	*c = calls{calls: c.calls[:0], views: c.views[:0], parents: c.parents[:0], paths: c.paths[:0]}
}

// Again gives the sequence of entry i, which has rows in the step, more of them.
func (b *Set[B]) Again(i, tokens int) {
	b.spell()
	b.calls.calls = append(b.calls.calls, Call{Entry: i, At: b.Steps[0].Entries[i].Tokens, Tokens: tokens})
	for j := range b.Steps {
		b.Steps[j].Entries[i].Tokens += tokens
	}
}

// spell spells the calls of a step out.
func (b *Set[B]) spell() {
	if b.spelled {
		return
	}
	b.spelled = true
	for i := range b.Steps[0].Entries {
		b.calls.calls = append(b.calls.calls, Call{Entry: i, Tokens: b.Steps[0].Entries[i].Tokens})
	}
}

// See says that the rows that were added last have views, which View adds.
func (b *Set[B]) See() {
	b.spell()
	b.sees, b.last().view = true, len(b.views)+1
}

// View adds what the next row sees: the tokens before end, from a position.
func (b *Set[B]) View(position, end int) {
	v := View{position, end}
	c := b.last()
	first := c.At == 0 && len(b.views) == c.view-1
	b.views = append(b.views, v)
	for j := range b.Steps {
		if e := &b.Steps[j].Entries[c.Entry]; !e.Write {
			if at := e.local(v).Position; first || at < e.lowest {
				e.lowest = at
			}
		}
	}
}

// Grow makes the rows that were added last a tree: parents are the nodes, further in front, that each goes on from; −1: it
// goes on from the sequence.
func (b *Set[B]) Grow(parents []int) {
	b.See()
	c := b.last()
	c.tree = len(b.parents) + 1
	b.parents = append(b.parents, parents...)
	root := b.runs(c.Entry).Len() + c.At
	for _, parent := range parents {
		at := root
		if parent >= 0 {
			at = b.views[c.view-1+parent].Position + 1
		}
		b.View(at, root)
	}
	b.words = max(b.words, (len(parents)+treeBits-1)/treeBits)
	b.leave(c.Entry, len(parents))
}

// leave says how many of the new tokens the sequence of an entry does not get.
func (b *Set[B]) leave(entry, tokens int) {
	for j := range b.Steps {
		b.Steps[j].Entries[entry].left = tokens
	}
}

// Accept says which nodes the sequence of entry i gets of its tree.
func (b *Set[B]) Accept(i int, path []int) error {
	c := b.treeOf(i)
	if c == nil {
		return argument("the sequence has no tree in this step; add one with AddTree")
	}
	at := -1
	for j, node := range path {
		if node < 0 || node >= c.Tokens {
			return argument("node %d of the path is %d; the tree has nodes 0 to %d", j, node, c.Tokens-1)
		}
		if have := b.parents[c.tree-1+node]; have != at {
			return argument("node %d of the path is %d, which goes on from %d, not from %d", j, node, have, at)
		}
		at = node
	}
	if c.path == 0 {
		c.path = len(b.paths) + 1
		b.paths = slices.Grow(b.paths, c.Tokens)[:len(b.paths)+c.Tokens]
	}
	c.kept = copy(b.paths[c.path-1:], path)
	b.leave(i, c.Tokens-c.kept)
	return nil
}

// treeOf is the call that is the tree of entry i; nil: it has none.
func (b *Set[B]) treeOf(i int) *Call {
	for j := range b.calls.calls {
		if c := &b.calls.calls[j]; c.Entry == i && c.tree > 0 {
			return c
		}
	}
	return nil
}

// Trees reports whether the step has trees.
func (b *Set[B]) Trees() bool { return b.words > 0 }

// Undecided is the entry of a tree of which nobody said what was accepted; −1: there is none.
func (b *Set[B]) Undecided() int {
	for i := range b.calls.calls {
		if c := &b.calls.calls[i]; c.tree > 0 && c.path == 0 {
			return c.Entry
		}
	}
	return -1
}

// Path is the accepted nodes of entry i's tree, if it has one, and how many new tokens the sequence has before the tree.
func (b *Set[B]) Path(i int) (nodes []int, at int, ok bool) {
	c := b.treeOf(i)
	if c == nil {
		return nil, 0, false
	}
	return b.accepted(c), c.At, true
}

func (c *calls) accepted(of *Call) []int {
	if of.path == 0 {
		return nil
	}
	return c.paths[of.path-1:][:of.kept]
}
