package prefix

import (
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// node is an edge of the tree and its lower end: a run of blocks without a branch.
// The node of a root has none.
type node struct {
	root      *root
	parent    *node // nil: the node of a root, or out of the tree
	depth     int   // blocks on the path before its own
	tokens    []uint32
	blocks    []block.Block
	marks     []mark // one a block, or nil: none has one
	keys      []Key  // of its first blocks, as many as were asked for; of all, if one below has any or is offloaded
	offloaded int    // blocks at its end that are offloaded

	kids        *node // treap of the children that begin with a resident block: see children.go
	farKids     *node // and of those that are offloaded
	left, right *node // in the parent's treap
	above       *node // there; nil: it is at the top
	weight      uint32
}

// root is a scope's part of the tree. It exists while it has blocks.
type root struct {
	Root
	node   node
	tenant *tenant
	busy   bool // blocks are on their way into it
}

// none is the number of no block.
const none = intrusive.None

// entry is what the tree knows of a block, by the block's number. That of a block which is
// offloaded has a number that is no block's: see offloaded.go.
type entry struct {
	node     *node  // nil: not in the tree
	hash     uint64 // of the path to its end; out of the tree: see checkInsert
	gen      uint32
	depth    uint32 // blocks before it on its path
	place    int32  // among the blocks whose time is limited
	state    entryState
	priority uint8

	// Of few blocks.
	sameHash struct{ prev, next uint32 } // of a first block: see firstBlocks
	ttl      time.Duration               // after its release; 0: no limit
	expires  int64                       // nanoseconds of the clock; 0: never
}

type entryState uint8

const (
	held   entryState = iota // has owners
	queued                   // cached, in the queue of its rank
	absent                   // offloaded
)

// label is the tokens and the mark of the node's block i.
func (n *node) label(i, blockSize int) ([]uint32, mark) {
	tokens := n.tokens[i*blockSize : min((i+1)*blockSize, len(n.tokens))]
	if n.marks == nil {
		return tokens, mark{}
	}
	return tokens, n.marks[i]
}

// resident is the number of the node's blocks that are the allocator's: the first ones.
func (n *node) resident() int { return len(n.blocks) - n.offloaded }

// far reports whether none of the node's blocks is resident. The node of a root is not far.
func (n *node) far() bool { return n.offloaded > 0 && n.offloaded == len(n.blocks) }

// leafTail reports whether block i is the end of a resident path: all below it is offloaded.
func (n *node) leafTail(i int) bool { return n.kids == nil && i == n.resident()-1 }

// partial reports whether the node ends with a block that is not full.
func (n *node) partial(blockSize int) bool { return len(n.tokens)%blockSize != 0 }

// entry is the one with a number.
func (t *Tree) entry(id uint32) *entry {
	if uint(id) < uint(len(t.entries)) {
		return &t.entries[id]
	}
	return t.offloaded.entry(id)
}

// at is the entry of b if it is in the tree.
func (t *Tree) at(b block.Block) *entry {
	if uint(b.ID) >= uint(len(t.entries)) {
		return nil
	}
	if e := &t.entries[b.ID]; e.node != nil && e.gen == b.Gen {
		return e
	}
	return nil
}

// index is the place of an entry's block in its node.
func (e *entry) index() int { return int(e.depth) - e.node.depth }

// own makes n the node of its blocks from i on.
func (t *Tree) own(n *node, i int) {
	for _, b := range n.blocks[i:] {
		t.entry(b.ID).node = n
	}
}

// maxRun bounds the blocks of a node, and so the work of cutting and joining nodes.
const maxRun = 256

// split cuts n before block i, which is neither the first nor past the last, and
// returns the upper part, a new node. The lower one stays n, with its children.
func (t *Tree) split(n *node, i int) *node {
	at := i * t.blockSize
	up := &node{root: n.root, depth: n.depth, tokens: slices.Clone(n.tokens[:at]), blocks: slices.Clone(n.blocks[:i])}
	up.offloaded = max(n.offloaded-(len(n.blocks)-i), 0)
	n.parent.replaceChild(n, up)
	if n.marks != nil {
		up.marks, n.marks = slices.Clone(n.marks[:i]), n.marks[i:]
	}
	known := min(i, len(n.keys))
	up.keys, n.keys = slices.Clone(n.keys[:known]), n.keys[known:]
	n.depth, n.tokens, n.blocks, n.offloaded = n.depth+i, n.tokens[at:], n.blocks[i:], n.offloaded-up.offloaded
	t.own(up, 0)
	t.link(up, n)
	t.stats.Nodes++
	t.merge(n) // it may be short enough now
	return up
}

// link makes c, which has blocks, a child of n.
func (t *Tree) link(n, c *node) {
	c.weight = uint32(t.entry(c.blocks[0].ID).hash)
	t.addChild(n, c)
}

// merge joins n, unless it is nil, with its child if that is its only one, so that a
// run without a branch is one node again.
func (t *Tree) merge(n *node) {
	if n == nil || len(n.blocks) == 0 {
		return
	}
	c := n.onlyChild()
	if c == nil || len(n.blocks)+len(c.blocks) > maxRun {
		return
	}
	if n.marks != nil || c.marks != nil {
		n.marks = append(n.allMarks(), c.allMarks()...)
	}
	moved := len(n.blocks)
	n.tokens, n.blocks, n.keys = append(n.tokens, c.tokens...), append(n.blocks, c.blocks...), append(n.keys, c.keys...)
	n.kids, n.farKids, n.offloaded = c.kids, c.farKids, n.offloaded+c.offloaded
	reparent(n.kids, n)
	reparent(n.farKids, n)
	t.own(n, moved)
	c.kids, c.farKids, c.parent = nil, nil, nil
	t.stats.Nodes--
}

// reparent tells the children of a treap whose they are.
func reparent(c, parent *node) {
	for ; c != nil; c = c.right {
		c.parent = parent
		reparent(c.left, parent)
	}
}

// allMarks is the node's marks, made if there are none.
func (n *node) allMarks() []mark {
	if n.marks != nil {
		return n.marks
	}
	return make([]mark, len(n.blocks), len(n.blocks)+1)
}

// cut drops the last block of n, which has no children. A node without blocks
// leaves the tree, and its parent may be a run without a branch again.
func (t *Tree) cut(n *node) {
	last := len(n.blocks) - 1
	if last == 0 {
		p := n.parent
		p.dropChild(n)
		t.stats.Nodes--
		t.merge(p)
	}
	n.tokens, n.blocks = shrink(n.tokens[:last*t.blockSize]), shrink(n.blocks[:last])
	if n.marks != nil {
		n.marks = n.marks[:last]
	}
	n.keys, n.offloaded = n.keys[:min(last, len(n.keys))], max(n.offloaded-1, 0)
}

// shrink gives memory back that a slice has no use for any more.
func shrink[T any](s []T) []T {
	if cap(s) > 64 && len(s) < cap(s)/4 {
		return slices.Clone(s)
	}
	return s
}
