package prefix

import (
	"slices"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Match is what a tree has of a query.
type Match struct {
	Tokens int // leading tokens that were found
	Blocks int // full blocks of them
	Tail   int // tokens found in one more block, whose other tokens are not the query's
	// Offloaded is the number of tokens, in full blocks, that follow the full Blocks and are
	// offloaded: see OffloadedKeys and Promote. It includes the tokens of Tail, if there are any.
	Offloaded int
	// Fidelity is the union of the blocks' fidelities.
	Fidelity Fidelity

	end     *node // that holds the last block, the one of the tail included
	far     *node // that holds the last offloaded block
	version uint64
	reason  MissReason // why it is not more
	asked   asked
}

// asked tells one question from another.
type asked struct {
	root           Key
	tokens         *uint32
	extra          *Key
	length, extras int
	accept         Fidelity
}

func question(r Root, q Query) asked {
	return asked{r.Key, unsafe.SliceData(q.Tokens), unsafe.SliceData(q.Extra), len(q.Tokens), len(q.Extra), q.Accept}
}

// Lookup appends the blocks of the longest known prefix of a query to dst and describes it. With a
// Tail only the first Tail tokens of the last block are the query's: it can be read up to there, or
// copied and then written. The caller does not own the blocks: they may be evicted as soon as the
// lock that guards the allocator is released. Take makes the caller an owner.
//
// A reader that needs the logits of the last token looks up all tokens but that one.
func (t *Tree) Lookup(dst []block.Block, r Root, q Query) ([]block.Block, Match) {
	if t.alloc == nil {
		return dst, Match{}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	m := t.match(r, q)
	return m.append(dst), m
}

// Match is Lookup without the blocks.
func (t *Tree) Match(r Root, q Query) Match {
	if t.alloc == nil {
		return Match{}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.match(r, q)
}

// match walks down. The caller holds the lock.
func (t *Tree) match(r Root, q Query) Match {
	m := Match{version: t.version, asked: question(r, q)}
	root := t.root(r)
	if root == nil {
		m.reason = t.missReason(r, q, nil, 0)
		return m
	}
	n, i := &root.node, 0 // i of the node's blocks match
	full := n             // the node of the last full one
	for i == len(n.blocks) && m.Blocks*t.blockSize < len(q.Tokens) {
		c, tail := t.step(n, q, m.Blocks)
		if c == nil {
			break
		}
		n, i = c, 1
		if m.Tail = tail; tail > 0 {
			break
		}
		full = c
		m.Blocks++
		more, tail := t.along(n, q, m.Blocks)
		i, m.Blocks, m.Tail = i+more, m.Blocks+more, tail
	}
	m.end = n
	late := t.shorten(&m)
	m.Tokens, m.Fidelity = m.Blocks*t.blockSize+m.Tail, m.fidelity()
	if late {
		m.reason = WasEvicted // or will be, with the next change
	} else if t.follow(&m, full, q); m.Offloaded > 0 {
		m.reason = WasEvicted // from here
	} else if m.Tokens < len(q.Tokens) {
		m.reason = t.missReason(r, q, n, m.Blocks)
	}
	if max(m.Tokens, m.Blocks*t.blockSize+m.Offloaded) < max(t.minPrefix, 1) {
		m = Match{version: m.version, reason: m.reason, asked: m.asked}
		if len(q.Tokens) < max(t.minPrefix, 1) {
			m.reason = TooShort
		}
	}
	return m
}

// step finds the child of n that goes on with block i of the query: tail is 0 if all
// of the child's first block does, else the number of its tokens that do.
func (t *Tree) step(n *node, q Query, i int) (best *node, tail int) {
	tokens, extra := q.tokens(i, t.blockSize), q.extra(i)
	for f := Exact; ; { // every subset of Accept, the more exact ones first
		c, shared, exact := t.child(n.kids, tokens, mark{extra, f})
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

// along is how many resident blocks of n, from its second one on, go on with the query
// from its block i on, and how many tokens of one more.
func (t *Tree) along(n *node, q Query, i int) (blocks, tail int) {
	bs := t.blockSize
	shared := common(n.tokens[bs:min(n.resident()*bs, len(n.tokens))], q.Tokens[i*bs:])
	if n.marks == nil && i >= len(q.Extra) {
		return shared / bs, shared % bs
	}
	for ; shared > 0; shared -= bs {
		_, m := n.label(blocks+1, bs)
		if m.extra != q.extra(i+blocks) || m.fidelity&^q.Accept != 0 {
			return blocks, 0
		}
		if shared < bs {
			return blocks, shared
		}
		blocks++
	}
	return blocks, 0
}

// shorten leaves out what has had its time, which is the end of a path: what leads to
// a block is never given less. It reports whether there was any.
func (t *Tree) shorten(m *Match) (late bool) {
	now := t.moment()
	if now == 0 {
		return false
	}
	for m.end.depth+len(m.end.blocks) > 0 {
		last := m.end.blocks[m.all()-1-m.end.depth]
		if !t.entries[last.ID].expired(now) {
			break
		}
		late = true
		if m.Tail > 0 {
			m.Tail = 0
		} else {
			m.Blocks--
		}
		if m.all() == m.end.depth {
			m.end = m.end.parent
		}
	}
	return late
}

// all is the number of the match's blocks, the one of the tail included.
func (m Match) all() int {
	if m.Tail > 0 {
		return m.Blocks + 1
	}
	return m.Blocks
}

// fidelity is what the match's blocks lack, all together.
func (m Match) fidelity() (f Fidelity) {
	for n, end := m.end, m.all(); end > 0; n = n.parent {
		if n.depth >= end { // Take had to stop further up
			continue
		}
		if n.marks != nil {
			for _, mk := range n.marks[:end-n.depth] {
				f |= mk.fidelity
			}
		}
		end = n.depth
	}
	return f
}

// append appends the match's blocks.
func (m Match) append(dst []block.Block) []block.Block {
	at, end := len(dst), m.all()
	dst = slices.Grow(dst, end)[:at+end]
	for n := m.end; end > 0; n = n.parent {
		if n.depth < end { // Take may have had to stop further up
			copy(dst[at+n.depth:at+end], n.blocks)
			end = n.depth
		}
	}
	return dst
}

// MissReason says why the match is not longer.
func (m Match) MissReason() MissReason { return m.reason }
