package residency

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// retry tries what may lack blocks. While it does, it waits for the oldest of
// those that the device still uses and tries again, until none are on their way back.
func (r *Blocks) retry(try func() error) error {
	for {
		if err := r.Reclaim(); err != nil {
			return err
		}
		err := try()
		if err == nil || len(r.retired) == 0 || !errors.Is(err, block.ErrOutOfBlocks{}) {
			return err
		}
		_ = r.retired[0].fence.Wait() // the fence keeps its error: Reclaim reports it
	}
}

// Take appends n blocks to dst for the owner of a claim, whose paths begin at root: all or
// none. When there are too few it evicts cached ones, and waits for retired ones before it
// reports ErrOutOfBlocks.
func (r *Blocks) Take(c *block.Claim, root prefix.Root, dst []block.Block, n int) ([]block.Block, error) {
	if err := r.retry(func() error { return r.makeRoom(c, root, n) }); err != nil {
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
	if short <= 0 || r.tree == nil || r.tree.Evict(short, root) {
		return nil
	}
	own := r.tree.Evictable(root)
	if due := min(short, promised); short-due <= own { // a promise is kept whoever's floor it is
		r.tree.Evict(short-due, root)
		r.tree.EvictAny(due)
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

// Fits waits for blocks that the device still uses until there are as many as need says, of which
// some are promised. It evicts none: a step that does not fit loses nobody a prefix. need is asked
// each time anew.
func (r *Blocks) Fits(need func() (n, promised int, err error)) (n int, err error) {
	err = r.retry(func() error {
		var promised int
		if n, promised, err = need(); err != nil {
			return err
		}
		return r.fits(n, promised)
	})
	return n, err
}

// Reserve sets blocks aside for claims: all, or with an error none. It waits for retired ones
// before it reports ErrOutOfBlocks.
func (r *Blocks) Reserve(claims []block.Reservation) error {
	return r.retry(func() error { return r.alloc.Reserve(claims) })
}

// Restore makes a claim as large again as it was before blocks were taken that have
// been given back.
func (r *Blocks) Restore(c *block.Claim, blocks int) error {
	if c.Blocks() >= blocks {
		return nil
	}
	return r.alloc.Reserve([]block.Reservation{{Claim: c, Blocks: blocks}})
}
