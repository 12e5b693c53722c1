// Package block decides which sequence owns which block of a paged cache. It knows block numbers
// only: no memory, device or token. An owner of a block may read it; its only owner may write it.
//
// # The life of a block
//
// A block is held (it has owners), cached (it has no owner, but its content is complete and valid,
// so a prefix cache can take it again) or free. All blocks without an owner are in one list, free
// ones before cached ones, and are allocated from its front:
//
//	front  free, last released first … never used … | cached, least recently released first  back
//
// So cached content is overwritten only when no block is free, and then the oldest first. Of blocks
// that are released together, the end of a sequence goes before its beginning.
//
// # Handles
//
// A Block is a block's number and the generation of its content. The generation changes when the
// block is allocated for new content, not when it is released: the handle of a released block can
// be used with Take until the block is allocated again, and is ErrStale from then on.
package block

import "math"

// Block is a handle: the block's number and the generation of its content. The zero value is no
// block.
type Block struct{ ID, Gen uint32 }

// node is what is known of a block. The free list runs through the nodes, with
// one more at the end as its head, so that no operation allocates or searches.
type node struct {
	gen        uint32 // of the content; 0: never handed out
	refs       int32  // owners, or one of the two states below 1
	prev, next uint32 // neighbours in the free list: see free_list.go
}

// States of a node without an owner.
const (
	free   = 0
	cached = -1
)

const (
	nodeBytes = 16
	maxBlocks = min(math.MaxUint32-1, math.MaxInt/nodeBytes-1) // the head has a number, too
)

// BlockAllocator allocates the blocks 0 to Total−1. Every operation takes constant time for each
// block and allocates no memory, except Grow. It is not safe for concurrent use and must not be
// copied.
type BlockAllocator struct {
	nodes    []node
	head     uint32 // the last node, which is no block
	top      uint32 // the front of the free blocks; head: there is none
	free     int
	cached   int
	reserved int // blocks that claims hold
	peak     int
	claims   Claim // head of the ring of claims that hold blocks
}

// New returns an allocator of the given number of blocks, which takes 16 bytes for each. ErrRange
// unless there is at least 1 and at most 2^32−2 of them (fewer where int has 32 bits).
func New(blocks int) (*BlockAllocator, error) {
	if blocks < 1 || blocks > maxBlocks {
		return nil, ErrRange{What: "blocks", Have: blocks, Min: 1, Max: maxBlocks}
	}
	a := &BlockAllocator{nodes: make([]node, blocks+1), head: uint32(blocks), free: blocks}
	a.claims.prev, a.claims.next = &a.claims, &a.claims
	a.nodes[a.head] = node{prev: a.head, next: a.head}
	for id := range a.head { // top is block 0
		a.nodes[id].next = id + 1
	}
	return a, nil
}

// Allocate returns a block with one owner. Its content is undefined. ErrOutOfBlocks when none is
// available.
func (a *BlockAllocator) Allocate() (Block, error) {
	if a.Available() < 1 {
		return Block{}, ErrOutOfBlocks{Need: 1, Free: 0}
	}
	b := a.pop()
	a.notePeak()
	return b, nil
}

// AllocateN appends n blocks to dst, each with one owner; with an error it returns dst as it was.
// ErrOutOfBlocks when there are not enough, ErrRange for a negative n.
func (a *BlockAllocator) AllocateN(dst []Block, n int) ([]Block, error) {
	return a.allocate(dst, n, a.Available())
}

func (a *BlockAllocator) allocate(dst []Block, n, available int) ([]Block, error) {
	switch {
	case n < 0:
		return dst, ErrRange{What: "blocks to allocate", Have: n, Min: 0, Max: a.Total()}
	case n > available:
		return dst, ErrOutOfBlocks{Need: n, Free: available}
	}
	for range n {
		dst = append(dst, a.pop())
	}
	a.notePeak()
	return dst, nil
}

// pop gives the front of the list, which is not empty, to its first owner.
func (a *BlockAllocator) pop() Block {
	id := a.top
	if id == a.head { // no free block: the oldest content goes
		id = a.nodes[a.head].next
		a.unlink(id)
	} else {
		a.unstack(id)
	}
	n := &a.nodes[id]
	n.refs = 1
	n.gen++
	if n.gen == 0 { // after 2^32 uses: generation 0 is no handle's
		n.gen = 1
	}
	return Block{ID: id, Gen: n.gen}
}

// Retain adds an owner to a held block. ErrNotHeld when it has none, ErrOwners
// at 2^31−1 of them.
func (a *BlockAllocator) Retain(b Block) error {
	n, err := a.lookup("retain", b)
	switch {
	case err != nil:
		return err
	case n.refs < 1:
		return ErrBlock{Op: "retain", Block: b, Why: ErrNotHeld}
	case n.refs == math.MaxInt32:
		return ErrBlock{Op: "retain", Block: b, Why: ErrOwners}
	}
	n.refs++
	return nil
}

// RetainN adds an owner to every block of bs or, with an error, to none.
func (a *BlockAllocator) RetainN(bs []Block) error {
	for i, b := range bs {
		if err := a.Retain(b); err != nil {
			for _, done := range bs[:i] {
				a.nodes[done.ID].refs--
			}
			return err
		}
	}
	return nil
}

// Release removes an owner. With filled the content is complete and valid: when the last owner
// goes, a filled block is cached and any other is free. ErrDoubleFree when the block has no owner.
func (a *BlockAllocator) Release(b Block, filled bool) error {
	n, err := a.lookup("release", b)
	switch {
	case err != nil:
		return err
	case n.refs < 1:
		return ErrBlock{Op: "release", Block: b, Why: ErrDoubleFree}
	}
	n.refs--
	if n.refs == 0 {
		a.park(b.ID, filled)
	}
	return nil
}

// ReleaseN releases a sequence's blocks, given in order; the first filled ones are full. Either all
// are released or, with an error, none. A block that is in bs twice needs two owners.
func (a *BlockAllocator) ReleaseN(bs []Block, filled int) error {
	if filled < 0 || filled > len(bs) {
		return ErrRange{What: "filled blocks", Have: filled, Min: 0, Max: len(bs)}
	}
	for i, b := range bs {
		n, err := a.lookup("release", b)
		if err == nil && n.refs < 1 {
			err = ErrBlock{Op: "release", Block: b, Why: ErrDoubleFree}
		}
		if err != nil {
			for _, done := range bs[:i] {
				a.nodes[done.ID].refs++
			}
			return err
		}
		n.refs--
	}
	for _, b := range bs[filled:] { // in order, so that the last one is at the front
		a.parkOnce(b.ID, false)
	}
	for i := filled - 1; i >= 0; i-- { // backwards, so that the first one is at the back
		a.parkOnce(bs[i].ID, true)
	}
	return nil
}

// parkOnce puts a block without an owner into the list, unless it is there
// already because its handle was given twice.
func (a *BlockAllocator) parkOnce(id uint32, filled bool) {
	if n := &a.nodes[id]; n.refs == 0 && n.next == id {
		a.park(id, filled)
	}
}

// Take makes the caller the owner of a cached block. Its content is as it was when it was released.
// ErrNotCached when the block is held (then Retain it) or free, ErrOutOfBlocks when claims reserve
// all blocks that are not held.
func (a *BlockAllocator) Take(b Block) error {
	n, err := a.lookup("take", b)
	switch {
	case err != nil:
		return err
	case n.refs != cached:
		return ErrBlock{Op: "take", Block: b, Why: ErrNotCached}
	case a.Available() < 1:
		return ErrOutOfBlocks{Need: 1, Free: 0}
	}
	a.unlink(b.ID)
	n.refs = 1
	a.notePeak()
	return nil
}

// Discard makes a cached block free, because its content is not needed any more. ErrNotCached when
// the block is held or free.
func (a *BlockAllocator) Discard(b Block) error {
	n, err := a.lookup("discard", b)
	switch {
	case err != nil:
		return err
	case n.refs != cached:
		return ErrBlock{Op: "discard", Block: b, Why: ErrNotCached}
	}
	a.unlink(b.ID)
	a.park(b.ID, false)
	return nil
}

func (a *BlockAllocator) notePeak() {
	if held := a.Held(); held > a.peak { // rarely: most calls write nothing
		a.peak = held
	}
}

// lookup finds the node of b.
func (a *BlockAllocator) lookup(op string, b Block) (*node, error) {
	if b.ID >= a.head || b.Gen == 0 {
		return nil, ErrBlock{Op: op, Block: b, Why: ErrUnknown}
	}
	n := &a.nodes[b.ID]
	if n.gen != b.Gen {
		return nil, ErrBlock{Op: op, Block: b, Why: ErrStale}
	}
	return n, nil
}
