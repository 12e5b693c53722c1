package block

// Grow adds n blocks, numbered from Total on, that were never used and are used
// last of the free ones. It is the one operation that allocates memory.
// ErrRange when there would be more than an allocator can have.
func (a *BlockAllocator) Grow(n int) error {
	if len(a.nodes) == 0 {
		return ErrRange{What: "blocks to add to an allocator that New did not make", Have: n}
	}
	if n < 0 || n > maxBlocks-a.Total() {
		return ErrRange{What: "blocks to add", Have: n, Min: 0, Max: maxBlocks - a.Total()}
	}
	if n == 0 {
		return nil
	}
	// The head moves to the new end, and its old place becomes a block: whatever
	// pointed to it follows.
	old, head := a.head, a.head+uint32(n)
	nodes := append(a.nodes, make([]node, n)...)
	ring := nodes[old]
	if ring.next == old {
		ring = node{prev: head, next: head}
	} else {
		nodes[ring.prev].next, nodes[ring.next].prev = head, head
	}
	nodes[head] = ring
	for id := old; id < head; id++ {
		nodes[id] = node{next: id + 1}
	}
	// The stack of free blocks ended at the old head, and so at the first new block:
	// they are the last to be used.
	a.nodes, a.head, a.free = nodes, head, a.free+n
	return nil
}
