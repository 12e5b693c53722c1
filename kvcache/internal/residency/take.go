package residency

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// attempt tries what may lack blocks. If it does, and the device still uses some that come back, it
// notes what Retry is to wait for.
func (r *Blocks) attempt(try func() error) error {
	if err := r.Reclaim(); err != nil {
		return err
	}
	return r.note(try())
}

func (r *Blocks) note(err error) error {
	if len(r.retired) > 0 && errors.Is(err, block.ErrOutOfBlocks{}) {
		r.expect(r.retired[0].fence)
	}
	return err
}

// Take appends n blocks to dst for the owner of a claim, whose paths begin at root: all or
// none. When there are too few it evicts cached ones. ErrOutOfBlocks; see Fences.Retry.
func (r *Blocks) Take(c *block.Claim, root prefix.Root, dst []block.Block, n int) ([]block.Block, error) {
	if err := r.Reclaim(); err != nil {
		return dst, err
	}
	return r.TakeFit(c, root, dst, n)
}

// TakeFit is Take after Fits: the claim is as large as it was then.
func (r *Blocks) TakeFit(c *block.Claim, root prefix.Root, dst []block.Block, n int) ([]block.Block, error) {
	if err := r.note(r.makeRoom(c, root, n)); err != nil {
		return dst, err
	}
	return r.alloc.AllocateClaimed(c, dst, n)
}

// makeRoom evicts so many cached blocks that n are free, or none and returns
// ErrOutOfBlocks.
func (r *Blocks) makeRoom(c *block.Claim, root prefix.Root, n int) error {
	free, promised := r.alloc.Free(), c.Blocks()
	if err := r.fits(n, promised); err != nil {
		return err
	}
	short := n - free
	if short <= 0 || r.cache == nil || r.cache.Evict(short, root) {
		return nil
	}
	own := r.cache.Evictable(root)
	if due := min(short, promised); short-due <= own { // a promise is kept whoever's floor it is
		r.cache.Evict(short-due, root)
		r.cache.EvictAny(due)
		return nil
	}
	return block.ErrOutOfBlocks{Need: n, Free: free + own}
}

// fits reports whether there are n blocks for those who were promised some of them.
func (r *Blocks) fits(n, promised int) error {
	if available := r.alloc.Available() + promised; n > available {
		return block.ErrOutOfBlocks{Need: n, Free: available}
	}
	return nil
}

// Fits reports whether there are as many blocks as need says, of which some are promised: else
// ErrOutOfBlocks, see Fences.Retry. It evicts none: a step that does not fit loses nobody a prefix.
func (r *Blocks) Fits(need func() (n, promised int, err error)) (n int, err error) {
	err = r.attempt(func() error {
		var promised int
		if n, promised, err = need(); err != nil {
			return err
		}
		return r.fits(n, promised)
	})
	return n, err
}

// Reserve sets blocks aside for claims: all, or with ErrOutOfBlocks none; see Fences.Retry. What comes back
// to a claim once the device is done with it counts already. It changes claims.
func (r *Blocks) Reserve(claims []block.Reservation) error {
	return r.attempt(func() error {
		for i := range claims {
			if c := claims[i].Claim; c != nil {
				claims[i].Blocks = max(claims[i].Blocks-r.due(c), 0)
			}
		}
		return r.alloc.Reserve(claims)
	})
}

// Restore makes a claim as large again as it was before blocks were taken that have
// been given back.
func (r *Blocks) Restore(c *block.Claim, blocks int) error {
	if c.Blocks() >= blocks {
		return nil
	}
	return r.alloc.Reserve([]block.Reservation{{Claim: c, Blocks: blocks}})
}

// Lower makes a claim smaller by n blocks, or by all that it has: its owner got as many without taking any. Where n is negative its
// owner gave as many back, and has them promised again unless others have them.
func (r *Blocks) Lower(c *block.Claim, n int) {
	had := c.Blocks()
	if n < 0 {
		if had > 0 {
			_ = r.Restore(c, had-n) // or as before
		}
		return
	}
	r.alloc.Cancel(c) // what comes back to it does so as before
	_ = r.Restore(c, max(had-n, 0))
}
