package block

import "fmt"

// Check walks every block, the free list and the claims, and returns ErrCorrupt
// with the first contradiction. It takes time linear in Total, for tests and
// for a doubtful moment.
func (a *BlockAllocator) Check() error {
	if len(a.nodes) == 0 {
		return corrupt("it was not made by New")
	}
	nFree, nCached, err := a.checkList()
	if err != nil {
		return err
	}
	if nFree != a.free || nCached != a.cached {
		return corrupt("list has %d free and %d cached blocks, counted %d and %d", nFree, nCached, a.free, a.cached)
	}
	held := 0
	for id := range a.head {
		n := a.nodes[id]
		if n.refs < 1 {
			continue
		}
		held++
		if n.next != id || n.gen == 0 {
			return corrupt("held block %d of generation %d points to %d", id, n.gen, n.next)
		}
	}
	if held != a.Held() || a.peak < held || a.peak > a.Total() {
		return corrupt("%d blocks held, counted %d with a peak of %d", held, a.Held(), a.peak)
	}
	return a.checkClaims()
}

// checkList walks both parts of the free list and counts them. It ends on any input.
func (a *BlockAllocator) checkList() (nFree, nCached int, err error) {
	for id := a.top; id != a.head; id = a.nodes[id].next {
		if id > a.head || a.nodes[id].refs != free || nFree == a.Total() {
			return 0, 0, corrupt("stack of free blocks is broken at block %d", id)
		}
		nFree++
	}
	// To come by a node twice before the head, it would need two predecessors.
	at := a.head
	for id := a.nodes[at].next; id != a.head; at, id = id, a.nodes[id].next {
		if id > a.head || a.nodes[id].prev != at || a.nodes[id].refs != cached || a.nodes[id].gen == 0 {
			return 0, 0, corrupt("ring of cached blocks is broken at block %d", id)
		}
		nCached++
	}
	if a.nodes[a.head].prev != at {
		return 0, 0, corrupt("ring of cached blocks does not end at block %d", at)
	}
	return nFree, nCached, nil
}

func (a *BlockAllocator) checkClaims() error {
	sum := 0
	for c := a.claims.next; c != &a.claims; c = c.next {
		if c.owner != a || c.blocks < 1 || c.next.prev != c {
			return corrupt("a claim of %d blocks is not this allocator's", c.blocks)
		}
		sum += c.blocks
	}
	if sum != a.reserved || a.Available() < 0 {
		return corrupt("claims hold %d blocks, counted %d, of %d without an owner", sum, a.reserved, a.free+a.cached)
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
