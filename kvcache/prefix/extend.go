package prefix

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// addition is a block on its way into the tree.
type addition struct {
	block block.Block
	label []uint32
	mark  mark
	depth int // blocks on the path before it
	more  int // blocks that come with it, itself included
	keep  RetentionHint
}

// extend puts a block after a path that ends in node at and has no such resident block, and
// returns its node.
func (t *Tree) extend(at *node, a addition) *node {
	before, _, hash := t.parent(at, a.depth-at.depth)
	hash = hashLabel(hash, a.label, a.mark)
	var n *node
	if t.offloaded.size() > 0 {
		n, a.keep = t.reclaim(at, a)
	}
	if n == nil {
		if i := a.depth - at.depth; i < len(at.blocks) {
			at = t.split(at, i)
		}
		n = at
		if at.kids != nil || at.farKids != nil || len(at.blocks) == 0 || len(at.blocks) >= maxRun {
			n = &node{root: at.root, parent: at, depth: a.depth, weight: uint32(hash)}
			t.stats.Nodes++
		}
		n.reserve(min(a.more, maxRun-len(n.blocks)), t.blockSize)
		n.add(a)
		if n != at {
			t.addChild(at, n)
		}
	}
	e := &t.entries[a.block.ID]
	*e = entry{
		node: n, hash: hash, gen: a.block.Gen, depth: uint32(a.depth),
		ttl: a.keep.TTL, priority: uint8(a.keep.Priority),
	}
	tn := at.root.tenant
	t.stats.Blocks++
	tn.stats.Blocks++
	t.book.Enter(tn.group)
	tn.group.Queue().Store(a.block.ID, policy.Place{Hash: hash, Depth: e.depth, Parent: before})
	t.ghosts.drop(hash)
	if a.depth == 0 {
		t.addFirst(n)
	}
	return n
}

// outgrow drops the block that is not full and begins a label after the block last of a
// root, if there is one, and returns last's node: that, and making room before, may have joined
// the path's nodes.
func (t *Tree) outgrow(root *root, last block.Block, label []uint32, m mark) *node {
	at, depth := t.behind(root, last)
	n, i := at, depth-at.depth
	if i == len(at.blocks) {
		n, _, _ = t.child(at.kids, label, m)
		i = 0
	}
	if n == nil {
		return at
	}
	tokens, have := n.label(i, t.blockSize)
	if len(tokens) < t.blockSize && have == m && common(tokens, label) == len(tokens) {
		t.forget(n, i)
		at, _ = t.behind(root, last)
	}
	return at
}

// reserve makes room for that many more blocks, which may then not all come.
func (n *node) reserve(blocks, blockSize int) {
	if blocks < 2 {
		return // it grows with the next ones, as a sequence does
	}
	n.tokens, n.blocks = slices.Grow(n.tokens, blocks*blockSize), slices.Grow(n.blocks, blocks)
}

// add appends a block to a node.
func (n *node) add(a addition) {
	if n.marks != nil || a.mark != (mark{}) {
		n.marks = append(n.allMarks(), a.mark)
	}
	n.tokens, n.blocks = append(n.tokens, a.label...), append(n.blocks, a.block)
}

// parent is the block before block i of n, its entry, and the hash of the path to its end; for the first of a root none, nil
// and where hashes of the root begin.
func (t *Tree) parent(n *node, i int) (uint32, *entry, uint64) {
	if i == 0 {
		up := n.parent
		if up == nil || len(up.blocks) == 0 {
			return none, nil, n.root.Key.word()
		}
		n, i = up, len(up.blocks)
	}
	id := n.blocks[i-1].ID
	e := t.entry(id)
	return id, e, e.hash
}
