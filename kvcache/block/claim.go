package block

import (
	"fmt"
	"math"
)

// Claim reserves a number of blocks for one owner, without saying which. The zero value is an empty
// claim, ready to use. A claim with blocks belongs to the allocator that reserved them, must be
// guarded as the allocator is, and must not be copied.
type Claim struct {
	owner      *BlockAllocator
	blocks     int
	want       int    // scratch of Reserve
	prev, next *Claim // the ring of the owner's claims; Check walks it
}

// Blocks is the number of blocks that are still reserved.
func (c *Claim) Blocks() int { return c.blocks }

// Reservation asks for a claim of at least that many blocks.
type Reservation struct {
	Claim  *Claim
	Blocks int
}

// Reserve raises every claim to the number in its reservation. It never lowers a claim, so
// repeating it does nothing; when two reservations name one claim the larger counts. With an error
// nothing has changed: ErrOutOfBlocks with the number of blocks that the claims lack, ErrRange for
// a negative number, ErrUnknown for a claim that is nil, a copy or of another allocator.
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

// AllocateClaimed appends n blocks to dst, each with one owner: first those that c reserves, then
// available ones. With an error it returns dst as it was: ErrOutOfBlocks when both do not suffice,
// ErrRange for a negative n, ErrUnknown for a claim that is nil, a copy or of another allocator.
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

// Cancel empties a claim. It does nothing to a claim of another allocator.
func (a *BlockAllocator) Cancel(c *Claim) {
	if a.own(c) == nil {
		a.set(c, 0)
	}
}

// own is nil when c holds nothing or is in this allocator's ring. A copy of a
// claim is in no ring: its neighbours point to the original.
func (a *BlockAllocator) own(c *Claim) error {
	if c == nil || c.blocks != 0 && (c.owner != a || c.next.prev != c) {
		return fmt.Errorf("block: claim is nil, a copy or %w", ErrUnknown)
	}
	return nil
}

// set makes c a claim of that many blocks. One of none leaves the ring and is a
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
