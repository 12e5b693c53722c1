package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// Evict makes n cached blocks free, for a sequence of scope r, in the order of the
// policy: the ends of paths first. Blocks within the floor of another salt stay.
// Where there are not n it evicts none and returns false. What Config.Demote accepts stays
// in the tree, away; of another block goes also what is away below it.
func (t *Tree) Evict(n int, r Root) bool {
	if t.alloc == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if n > t.evictable(r) {
		return false
	}
	own := t.shareOf(r)
	for ; n > 0; n-- {
		if !t.evictFrom(t.shares.victim(own)) {
			return false
		}
	}
	return true
}

// EvictAny is Evict for who was promised blocks before: no floor keeps them from him.
func (t *Tree) EvictAny(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if n > t.queued {
		return false
	}
	for ; n > 0; n-- {
		if s := t.shares.anyVictim(); s == nil || !t.evictFrom(s) {
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
	return t.evictable(r)
}

func (t *Tree) evictable(r Root) int {
	own := t.shareOf(r)
	return t.shares.spare - own.spare + own.queued
}

func (t *Tree) shareOf(r Root) *share {
	if t.shares.limited == 0 {
		return t.shares.common
	}
	if tn := t.tenants[r.tenant]; tn != nil {
		return tn.share
	}
	return t.shares.common
}

// evictFrom evicts the block of a share whose turn it is.
func (t *Tree) evictFrom(s *share) bool {
	id := s.ranker.victim(s)
	if id == none {
		return false
	}
	s.ranker.evicted(s, id)
	e := &t.entries[id]
	t.stats.evicted++
	e.node.root.tenant.stats.evicted++
	if t.away.most > 0 && t.demote(id) {
		return true
	}
	t.ghosts.add(e.hash)
	n := e.node
	if t.away.size > 0 {
		t.forget(n, e.index()) // and what is away below
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
	if n.away > 0 {
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
	t.blocks--
	n.root.tenant.left()
}

// Has reports whether a block is in the tree, and whether it is the end of a path: what is
// away below it does not count.
func (t *Tree) Has(b block.Block) (known, end bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := t.at(b); e != nil {
		return true, e.node.leafTail(e.index())
	}
	return false, false
}

// Forget takes a block and all that hangs below it, resident or away, out of the tree: its content is
// about to change, or is not what its path says. What has no owner is free from here
// on; owners keep their blocks. It returns false for a block that is not in the
// tree.
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

// Clear takes everything out of the tree, also what is away. ErrInUse while blocks are held, unless by
// force: then their owners keep them for themselves, and can insert nothing behind
// them.
func (t *Tree) Clear(force bool) error {
	if err := t.made("clear"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire() // a lease that is over uses nothing
	if used := t.blocks - t.queued; used > 0 && !force {
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
