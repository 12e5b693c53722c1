package prefix

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/account"
)

// Evict makes n cached blocks free, for a sequence of scope r, in the order of the policy. Blocks
// within the floor of another salt stay. When there are fewer than n it evicts none and returns
// false. Entries that Config.Demote accepts stay in the tree, offloaded; with any other block the
// offloaded entries below it are dropped.
func (t *Tree) Evict(n int, r Root) bool {
	if t.alloc == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	own := t.groupOf(r)
	if n > t.book.Evictable(own) {
		return false
	}
	for ; n > 0; n-- {
		if !t.evictFrom(t.book.Victim(own)) {
			return false
		}
	}
	return true
}

// EvictAny is Evict for a caller that was promised blocks before: it ignores floors.
func (t *Tree) EvictAny(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if n > t.stats.Cached {
		return false
	}
	for ; n > 0; n-- {
		if g := t.book.AnyVictim(); g == nil || !t.evictFrom(g) {
			return false
		}
	}
	return true
}

// Evictable is the number of blocks that Evict can free for a sequence of scope r.
func (t *Tree) Evictable(r Root) int {
	if t.alloc == nil {
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.book.Evictable(t.groupOf(r))
}

// evictFrom evicts the block of a group whose turn it is.
func (t *Tree) evictFrom(g *account.Group) bool {
	id := g.Queue().Victim()
	if id == none {
		return false
	}
	e := &t.entries[id]
	t.stats.Evicted++
	e.node.root.tenant.stats.Evicted++
	if t.offloaded.most > 0 && t.demote(id) {
		return true
	}
	t.ghosts.add(e.hash)
	n := e.node
	if t.offloaded.size() > 0 {
		t.forget(n, e.index()) // and what is offloaded below
		return true
	}
	t.drop(n)
	t.merge(n.parent) // with what is left of n
	return true
}

// drop takes the last block of n, which ends a path, out of the tree. Without an
// owner it is free from here on; an owner keeps it for himself.
func (t *Tree) drop(n *node) {
	last := len(n.blocks) - 1
	if n.offloaded > 0 {
		t.unlist(n.root.tenant, n.blocks[last].ID, n.keys[last])
	} else {
		t.vacate(n, last)
	}
	t.version++
	t.cut(n)
	t.prune(n.root)
}

// vacate takes resident block i of n, which ends a resident path, out of the books.
func (t *Tree) vacate(n *node, i int) {
	b := n.blocks[i]
	t.removed(n, i)
	if n.depth+i == 0 {
		t.dropFirst(n)
	}
	if t.entries[b.ID].state == queued {
		t.unqueue(b.ID)
		_ = t.alloc.Discard(b) // it is cached, as the entry says
	}
	t.entries[b.ID] = entry{}
	t.stats.Blocks--
	n.root.tenant.stats.Blocks--
	t.book.Leave(n.root.tenant.group)
	if t.left != nil {
		t.left(b)
	}
}

// Has reports whether a block is in the tree, and whether it is the end of a resident path.
func (t *Tree) Has(b block.Block) (known, end bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := t.at(b); e != nil {
		return true, e.node.leafTail(e.index())
	}
	return false, false
}

// Forget removes a block, and all resident and offloaded entries below it, from the tree, because
// its content is about to change or is not what its path says. Blocks without an owner become free;
// owners keep theirs. It returns false for a block that is not in the tree.
func (t *Tree) Forget(b block.Block) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.at(b)
	if e == nil {
		return false
	}
	t.forget(e.node, e.index())
	return true
}

// forget drops block i of n and what is below it, ends first, in the order of labels:
// equal histories free blocks in the same order.
func (t *Tree) forget(n *node, i int) {
	for {
		end := n
		for end.kids != nil || end.farKids != nil {
			if end.kids != nil {
				end = end.kids.leftmost()
			} else {
				end = end.farKids.leftmost()
			}
		}
		if end != n {
			for whole := len(end.blocks); whole > 0; whole-- {
				t.drop(end)
			}
			continue // n may have been joined with its last child
		}
		for len(n.blocks) > i {
			t.drop(n)
		}
		t.merge(n.parent) // with what is left of n
		return
	}
}

// Clear removes everything from the tree, offloaded entries included. ErrInUse while blocks are
// held, unless force is set: then owners keep their blocks and can insert nothing after them.
func (t *Tree) Clear(force bool) error {
	if err := t.made("clear"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire() // a lease that is over uses nothing
	if used := t.stats.Blocks - t.stats.Cached; used > 0 && !force {
		return ErrInUse{Blocks: used}
	}
	t.hub.mute = true // one event says it all
	for _, r := range t.sortedRoots() {
		for r.node.kids != nil {
			t.forget(r.node.kids, 0)
		}
		for r.node.farKids != nil {
			t.forget(r.node.farKids, 0)
		}
	}
	t.hub.mute = false
	t.hub.send(Event{Kind: Cleared})
	return nil
}

// ClearRoot is Clear of one scope. Events tell of each block.
func (t *Tree) ClearRoot(r Root, force bool) error {
	if err := t.made("clear"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	root := t.root(r)
	if root == nil {
		return nil
	}
	if !force {
		if used := len(t.blocksOf(root, held)); used > 0 {
			return ErrInUse{Blocks: used}
		}
	}
	root.busy = true
	for root.node.kids != nil {
		t.forget(root.node.kids, 0)
	}
	for root.node.farKids != nil {
		t.forget(root.node.farKids, 0)
	}
	root.busy = false
	t.prune(root)
	return nil
}
