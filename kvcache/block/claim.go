package block

import (
	"fmt"
	"math"
)

// Claim is a promise of blocks to one owner: nobody else is given the last ones.
// It does not say which blocks. The zero value is a claim of nothing, ready to
// use. A claim that holds blocks belongs to the allocator that promised them, is
// guarded as it is, and must not be copied.
type Claim struct {
	owner      *BlockAllocator
	blocks     int
	want       int    // scratch of Reserve
	prev, next *Claim // the ring of the owner's claims; Check walks it
}

// Blocks is the number of blocks still promised.
func (c *Claim) Blocks() int { return c.blocks }

// Reservation asks for a claim to hold at least so many blocks.
type Reservation struct {
	Claim  *Claim
	Blocks int
}

// Reserve raises every claim to what its reservation asks for, or changes
// nothing and returns ErrOutOfBlocks with the blocks that the claims lack. It
// never lowers a claim, so that doing it again does nothing; of two reservations for
// one claim the larger counts. A negative number is ErrRange, a claim that is
// nil, a copy or of another allocator ErrForeign.
func (a *BlockAllocator) Reserve(rs []Reservation) error {
	for _, r := range rs {
		if r.Blocks < 0 {
			return ErrRange{What: "blocks to reserve", Have: r.Blocks, Min: 0, Max: a.Total()}
		}
		if err := a.own(r.Claim); err != nil {
			return err
		}
		r.Claim.want = r.Claim.blocks
	}
	need := 0
	for _, r := range rs {
		if more := r.Blocks - r.Claim.want; more > 0 {
			need += min(more, math.MaxInt-need) // more than there can be is enough to know
			r.Claim.want = r.Blocks
		}
	}
	if need > a.Available() {
		return ErrOutOfBlocks{Need: need, Free: a.Available()}
	}
	for _, r := range rs {
		a.set(r.Claim, r.Claim.want)
	}
	return nil
}

// AllocateClaimed appends n blocks to dst, each with one owner: promised ones
// first, then available ones. When both do not suffice it returns dst as it was and
// ErrOutOfBlocks. A negative n is ErrRange, a claim that is nil, a copy or of
// another allocator ErrForeign.
func (a *BlockAllocator) AllocateClaimed(c *Claim, dst []Block, n int) ([]Block, error) {
	if err := a.own(c); err != nil {
		return dst, err
	}
	dst, err := a.allocate(dst, n, a.Available()+c.blocks)
	if err == nil {
		a.set(c, c.blocks-min(n, c.blocks))
	}
	return dst, err
}

// Cancel gives what is left of a claim back. A claim that is not this allocator's
// stays as it is.
func (a *BlockAllocator) Cancel(c *Claim) {
	if a.own(c) == nil {
		a.set(c, 0)
	}
}

// own is nil when c holds nothing or is in this allocator's ring. A copy of a
// claim is in no ring: its neighbours point to the original.
func (a *BlockAllocator) own(c *Claim) error {
	if c == nil || c.blocks != 0 && (c.owner != a || c.next.prev != c) {
		return fmt.Errorf("block: claim is nil, a copy or %w", ErrForeign)
	}
	return nil
}

// set makes c a claim of so many blocks. One of none leaves the ring and is a
// zero value again.
func (a *BlockAllocator) set(c *Claim, blocks int) {
	a.reserved += blocks - c.blocks
	switch {
	case c.blocks == 0 && blocks > 0:
		c.owner, c.prev, c.next = a, &a.claims, a.claims.next
		c.prev.next, c.next.prev = c, c
	case c.blocks > 0 && blocks == 0:
		c.prev.next, c.next.prev = c.next, c.prev
		*c = Claim{}
	}
	c.blocks = blocks
}
