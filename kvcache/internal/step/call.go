package step

import "slices"

// A step is plain where each of its sequences is added once and each of its rows sees what is before it: its calls are then
// its entries. Else they are spelled out: rows lie in the order of calls, attention takes each of them for a sequence, and
// if rows of one have views, all have.

// calls are those of a step that is not plain.
type calls struct {
	calls   []call
	views   []view // of the rows of calls that have some
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
		do(b.calls.calls[i].entry, b.calls.calls[i].tokens)
	}
	for i := 0; i < len(b.entries) && !b.spelled; i++ {
		do(i, b.entries[i].tokens)
	}
}

// call is rows that were added together: new tokens of a sequence, or queries.
type call struct {
	entry  int // whose they are
	at     int // new tokens that the sequence gets in the step before these; of queries: rows that it has
	tokens int

	view int // where the views of the rows begin, from 1 on; 0: they have none
	tree int // where the parents of the nodes begin, from 1 on; 0: the rows are no tree
	path int // where there is room for the accepted nodes, from 1 on; 0: nobody said which are
	kept int // how many are accepted
}

// view is what a row sees: of the tokens of its sequence those before end that masks let it see from position.
type view struct{ position, end int }

func (c *calls) last() *call { return &c.calls[len(c.calls)-1] }

// clear makes the step plain.
func (c *calls) clear() {
	*c = calls{calls: c.calls[:0], views: c.views[:0], parents: c.parents[:0], paths: c.paths[:0]}
}

// Again gives the sequence of entry i, which has rows in the step, more of them.
func (b *Set[B]) Again(i, tokens int) {
	b.spell()
	b.calls.calls = append(b.calls.calls, call{entry: i, at: b.Steps[0].entries[i].tokens, tokens: tokens})
	for j := range b.Steps {
		b.Steps[j].entries[i].tokens += tokens
	}
}

// spell spells the calls of a step out.
func (b *Set[B]) spell() {
	if b.spelled {
		return
	}
	b.spelled = true
	for i := range b.Steps[0].entries {
		b.calls.calls = append(b.calls.calls, call{entry: i, tokens: b.Steps[0].entries[i].tokens})
	}
}

// See says that the rows that were added last have views, which View adds.
func (b *Set[B]) See() {
	b.spell()
	b.sees, b.last().view = true, len(b.views)+1
}

// View adds what the next row sees: the tokens before end, from a position.
func (b *Set[B]) View(position, end int) {
	v := view{position, end}
	c := b.last()
	first := c.at == 0 && len(b.views) == c.view-1
	b.views = append(b.views, v)
	for j := range b.Steps {
		if e := &b.Steps[j].entries[c.entry]; !e.write {
			if at := e.local(v).position; first || at < e.lowest {
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
	root := b.runs(c.entry).Len() + c.at
	for _, parent := range parents {
		at := root
		if parent >= 0 {
			at = b.views[c.view-1+parent].position + 1
		}
		b.View(at, root)
	}
	b.words = max(b.words, (len(parents)+treeBits-1)/treeBits)
	b.leave(c.entry, len(parents))
}

// leave says how many of the new tokens the sequence of an entry does not get.
func (b *Set[B]) leave(entry, tokens int) {
	for j := range b.Steps {
		b.Steps[j].entries[entry].left = tokens
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
		if node < 0 || node >= c.tokens {
			return argument("node %d of the path is %d; the tree has nodes 0 to %d", j, node, c.tokens-1)
		}
		if have := b.parents[c.tree-1+node]; have != at {
			return argument("node %d of the path is %d, which goes on from %d, not from %d", j, node, have, at)
		}
		at = node
	}
	if c.path == 0 {
		c.path = len(b.paths) + 1
		b.paths = slices.Grow(b.paths, c.tokens)[:len(b.paths)+c.tokens]
	}
	c.kept = copy(b.paths[c.path-1:], path)
	b.leave(i, c.tokens-c.kept)
	return nil
}

// treeOf is the call that is the tree of entry i; nil: it has none.
func (b *Set[B]) treeOf(i int) *call {
	for j := range b.calls.calls {
		if c := &b.calls.calls[j]; c.entry == i && c.tree > 0 {
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
			return c.entry
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
	return b.accepted(c), c.at, true
}

func (c *calls) accepted(of *call) []int {
	if of.path == 0 {
		return nil
	}
	return c.paths[of.path-1:][:of.kept]
}
