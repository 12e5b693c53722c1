package prefix

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/account"
)

// Check verifies the tree, its queues and the allocator, and returns ErrCorrupt with the first
// contradiction. It takes linear time, for tests and debugging.
func (t *Tree) Check() error {
	if err := t.made("check"); err != nil {
		return err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if err := t.alloc.Check(); err != nil {
		return err
	}
	var err error
	var all Stats
	tenants, groups := map[*tenant]Stats{}, map[*account.Group][2]int{t.book.Common(): {}}
	for key, r := range t.roots {
		if r.Key != key || r.node.kids == nil && r.node.farKids == nil {
			return corrupt("a root has no blocks, or another one's place")
		}
		sum := tenants[r.tenant]
		each(&r.node, func(n *node) {
			if err == nil && n != &r.node {
				all.Nodes++
				sum.Blocks += n.resident()
				sum.Offloaded += n.offloaded
				err = t.checkNode(r, n)
			}
		})
		if err != nil {
			return err
		}
		sum.Cached += len(t.blocksOf(r, queued))
		tenants[r.tenant] = sum
	}
	for _, tn := range t.tenants {
		have, sums := tenants[tn], groups[tn.group]
		if have.Blocks != tn.stats.Blocks || have.Cached != tn.stats.Cached || have.Offloaded != tn.stats.Offloaded {
			return corrupt("a salt has %+v, counted %+v", have, tn.stats)
		}
		groups[tn.group] = [2]int{sums[0] + have.Blocks, sums[1] + have.Cached}
		all.Blocks, all.Cached, all.Offloaded = all.Blocks+have.Blocks, all.Cached+have.Cached, all.Offloaded+have.Offloaded
	}
	switch {
	case all.Blocks != t.stats.Blocks || all.Nodes != t.stats.Nodes || all.Cached != t.stats.Cached || all.Offloaded != t.stats.Offloaded:
		return corrupt("the tree has %+v, counted %+v", all, t.stats)
	case all.Cached != t.alloc.Cached():
		return corrupt("%d blocks without an owner, %d cached", all.Cached, t.alloc.Cached())
	}
	if err := t.checkOffloaded(); err != nil {
		return err
	}
	if err := t.book.Check(groups, func(id uint32) bool { return t.entries[id].state == queued }); err != nil {
		return corrupt("%v", err)
	}
	return nil
}

// checkNode checks one node and the entries of its blocks.
func (t *Tree) checkNode(r *root, n *node) error {
	bs := t.blockSize
	full := len(n.tokens) / bs
	if n.partial(bs) {
		full++
		if n.kids != nil || n.farKids != nil {
			return corrupt("a block that is not full has blocks behind it")
		}
	}
	switch {
	case n.root != r || n.parent == nil || n.depth != n.parent.depth+len(n.parent.blocks):
		return corrupt("a node at depth %d is not where its parent ends", n.depth)
	case len(n.blocks) == 0 || len(n.blocks) != full || len(n.blocks) > maxRun:
		return corrupt("a node of %d blocks has %d tokens", len(n.blocks), len(n.tokens))
	case n.marks != nil && len(n.marks) != full || len(n.keys) > full || t.hub.active() && len(n.keys) != full || len(n.keys) > 0 && len(n.parent.keys) != len(n.parent.blocks):
		return corrupt("a node of %d blocks has %d marks and %d keys", full, len(n.marks), len(n.keys))
	case n.offloaded < 0 || n.offloaded > full || n.offloaded > 0 && (n.kids != nil || n.partial(bs) || len(n.keys) != full) || n.parent.offloaded > 0 && !n.far():
		return corrupt("a node of %d blocks has %d offloaded ones, and its parent %d", full, n.offloaded, n.parent.offloaded)
	}
	if c := n.onlyChild(); c != nil && len(n.blocks)+len(c.blocks) <= maxRun {
		return corrupt("a run of %d and %d blocks without a branch is two nodes", len(n.blocks), len(c.blocks))
	}
	for _, c := range [...]*node{n.left, n.right} {
		if c != nil && (c.weight > n.weight || c.parent != n.parent || c.above != n) {
			return corrupt("siblings are out of order")
		}
	}
	for i, b := range n.blocks {
		err := t.checkPlace(n, i, b)
		if err == nil && i < n.resident() {
			err = t.checkOwners(n, i, b)
		}
		if err != nil {
			return err
		}
	}
	tokens, m := n.label(0, bs)
	if c, _, exact := t.child(*n.parent.treapOf(n), tokens, m); !exact || c != n {
		return corrupt("a node at depth %d is not found among its siblings", n.depth)
	}
	return nil
}

// checkPlace checks the entry of block i of n, resident or offloaded.
func (t *Tree) checkPlace(n *node, i int, b block.Block) error {
	e := t.entry(b.ID)
	if e.node != n || e.gen != b.Gen || int(e.depth) != n.depth+i {
		return corrupt("block %d is not where its entry says", b.ID)
	}
	_, _, hash := t.parent(n, i)
	if tokens, m := n.label(i, t.blockSize); e.hash != hashLabel(hash, tokens, m) {
		return corrupt("block %d has the hash of another path", b.ID)
	}
	if uint64(b.ID) < uint64(len(t.entries)) != (i < n.resident()) || (e.state == absent) != (i >= n.resident()) {
		return corrupt("block %d of %d, %d of them offloaded, has number %d and state %d", i, len(n.blocks), n.offloaded, b.ID, e.state)
	}
	return nil
}

// checkOwners checks resident block i of n against the allocator.
func (t *Tree) checkOwners(n *node, i int, b block.Block) error {
	e := t.entries[b.ID]
	if _, parent, _ := t.parent(n, i); parent != nil && parent.state == queued && e.state == held {
		return corrupt("block %d has an owner, its parent has none", b.ID)
	}
	refs, err := t.alloc.Refs(b)
	if err != nil || (refs == 0) != (e.state == queued) {
		return corrupt("block %d has %d owners and state %d (%v)", b.ID, refs, e.state, err)
	}
	return nil
}
