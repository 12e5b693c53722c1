package block

// The free list has two parts. Free blocks are a stack, linked by next, whose
// last one points to the head: they are only ever used from the top. Cached ones are
// a ring through the head, linked both ways, so that one can be taken out of
// the middle. A held block points to itself.

// park puts a block without an owner into the list: filled ones at the back, where
// they live longest, others at the front, where they are used up first.
func (a *BlockAllocator) park(id uint32, filled bool) {
	n := &a.nodes[id]
	if !filled {
		n.refs, n.next = free, a.top
		a.top = id
		a.free++
		return
	}
	last := a.nodes[a.head].prev
	n.refs, n.prev, n.next = cached, last, a.head
	a.nodes[last].next = id
	a.nodes[a.head].prev = id
	a.cached++
}

// unlink takes a cached block out of the list, from wherever it stands.
func (a *BlockAllocator) unlink(id uint32) {
	n := &a.nodes[id]
	a.nodes[n.prev].next = n.next
	a.nodes[n.next].prev = n.prev
	n.next = id
	a.cached--
}

// unstack takes the top, the free block id, out of the list.
func (a *BlockAllocator) unstack(id uint32) {
	n := &a.nodes[id]
	a.top, n.next = n.next, id
	a.free--
}
