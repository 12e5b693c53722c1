package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// Match is what a tree has of a query.
type Match struct {
	Tokens int // leading tokens that were found
	Blocks int // full blocks of them
	Tail   int // tokens of one block more, of which the others are not the query's
	// Fidelity is what the content of some of them lacks.
	Fidelity Fidelity

	end     *node // that holds the last block, the one of the tail included
	version uint64
	cause   Cause // why it is not more
}

// Lookup appends the blocks of the longest known prefix of a query to dst and
// says how much that is. With a Tail the last of them is a block of which only the
// first Tail tokens are the query's: a reader, or a writer that copies it first, can
// use those. Nothing is taken: the blocks may be evicted as soon as the lock that
// guards the allocator is free. Use Take to keep them.
//
// A reader that needs the logits of the last token looks up all tokens but that one.
func (t *Tree) Lookup(dst []block.Block, r Root, q Query) ([]block.Block, Match) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	m := t.match(r, q)
	return m.append(dst), m
}

// Match is Lookup for a caller that needs no blocks, only how much there is.
func (t *Tree) Match(r Root, q Query) Match {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.match(r, q)
}

// match walks down. The caller holds the lock.
func (t *Tree) match(r Root, q Query) Match {
	m := Match{version: t.version}
	root := t.root(r)
	if root == nil {
		m.cause = t.cause(r, q, nil, 0)
		return m
	}
	now := t.moment()
	n, i, late := &root.node, 0, false // i of the node's blocks match
	for i == len(n.blocks) && m.Blocks*t.blockSize < len(q.Tokens) {
		c, tail := t.step(n, q, m.Blocks)
		if c == nil {
			break
		}
		if late = t.entries[c.blocks[0].ID].expired(now); late {
			break
		}
		_, mk := c.label(0, t.blockSize)
		m.Fidelity |= mk.fidelity
		if tail > 0 {
			n, i, m.Tail = c, 1, tail
			break
		}
		n = c
		m.Blocks++
		for i = 1; i < len(n.blocks); i++ {
			if late = t.entries[n.blocks[i].ID].expired(now); late {
				break
			}
			tokens, mk := n.label(i, t.blockSize)
			want := q.tokens(m.Blocks, t.blockSize)
			shared := common(tokens, want)
			if shared > 0 && mk.extra == q.extra(m.Blocks) && mk.fidelity&^q.Accept == 0 {
				m.Fidelity |= mk.fidelity
				if shared == t.blockSize {
					m.Blocks++
					continue
				}
				m.Tail = shared
			}
			break
		}
	}
	m.end, m.Tokens = n, m.Blocks*t.blockSize+m.Tail
	if late {
		m.cause = WasEvicted // or will be, with the next change
	} else if m.Tokens < len(q.Tokens) {
		m.cause = t.cause(r, q, n, m.Blocks)
	}
	if m.Tokens < max(t.minPrefix, 1) {
		m = Match{version: m.version, cause: m.cause}
		if len(q.Tokens) < max(t.minPrefix, 1) {
			m.cause = TooShort
		}
	}
	return m
}

// step finds the child of n that goes on with block i of the query: tail is 0 if all
// of the child's first block does, else the number of its tokens that do.
func (t *Tree) step(n *node, q Query, i int) (best *node, tail int) {
	tokens, extra := q.tokens(i, t.blockSize), q.extra(i)
	for f := Exact; ; { // every subset of Accept, the more exact ones first
		c, shared, exact := t.child(n, tokens, mark{extra, f})
		if exact && len(tokens) == t.blockSize {
			return c, 0
		}
		if shared > tail {
			best, tail = c, shared
		}
		if f = (f - q.Accept) & q.Accept; f == Exact { // that was the last subset
			return best, tail
		}
	}
}

// append appends the match's blocks.
func (m Match) append(dst []block.Block) []block.Block {
	total := m.Blocks
	if m.Tail > 0 {
		total++
	}
	at := len(dst)
	for range total {
		dst = append(dst, block.Block{})
	}
	for n, end := m.end, total; end > 0; n = n.parent {
		if n.depth < end { // Take may have had to stop further up
			copy(dst[at+n.depth:at+end], n.blocks)
			end = n.depth
		}
	}
	return dst
}

// Lacks is why a match is not longer than it is.
func (m Match) Lacks() Cause { return m.cause }
