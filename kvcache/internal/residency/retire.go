package residency

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// retired are references to blocks that are given up once the device is past a fence.
type retired struct {
	fence  *Fence
	blocks []block.Block
	claim  *block.Claim // that is larger by so many then; nil: none
	path   bool         // they are entries of the tree, which are not blocks
}

// Retire gives up references to blocks as soon as the device is past f. The slice
// stays the caller's.
func (r *Blocks) Retire(f *Fence, blocks []block.Block) error { return r.RetireFor(nil, f, blocks) }

// RetireFor is Retire of blocks that their owner will take as many of again: those that become free are
// promised to its claim at once, until Cancel.
func (r *Blocks) RetireFor(c *block.Claim, f *Fence, blocks []block.Block) error {
	if len(blocks) == 0 {
		return nil
	}
	if f.Reached() { // and so are those after which the sequence's other blocks wait
		return errors.Join(r.Reclaim(), r.giveBack(c, blocks))
	}
	var list []block.Block
	if n := len(r.lists); n > 0 {
		list, r.lists = r.lists[n-1], r.lists[:n-1]
	}
	r.retired = append(r.retired, retired{f.Hold(), append(list, blocks...), c, false})
	return nil
}

// Forgo is Retire of blocks that no work uses. It asks the device nothing.
func (r *Blocks) Forgo(blocks []block.Block) error { return r.giveBack(nil, blocks) }

// RetirePath is Retire of entries of the tree that are not blocks, after the blocks that are with them.
func (r *Blocks) RetirePath(f *Fence, path []block.Block) error {
	if len(path) == 0 {
		return nil
	}
	if f.Reached() {
		return errors.Join(r.Reclaim(), r.tree.Release(path))
	}
	r.retired = append(r.retired, retired{f.Hold(), append([]block.Block(nil), path...), nil, true})
	return nil
}

// due is how many blocks come back to a claim; nil: to any.
func (r *Blocks) due(c *block.Claim) (n int) {
	for _, w := range r.retired {
		if w.path || w.claim == nil || c != nil && w.claim != c {
			continue
		}
		for _, b := range w.blocks {
			if owners, err := r.alloc.Refs(b); err == nil && owners == 1 {
				n++
			}
		}
	}
	return n
}

// retiredRefs is how many references wait for the device.
func (r *Blocks) retiredRefs() (refs int) {
	for _, w := range r.retired {
		if !w.path {
			refs += len(w.blocks)
		}
	}
	return refs
}

// release takes an owner from each of a sequence's blocks. Those that the prefix
// tree knows stay findable.
func (r *Blocks) release(blocks []block.Block) error {
	if r.cache == nil {
		return r.alloc.ReleaseN(blocks, 0)
	}
	return r.cache.Release(blocks)
}

// giveBack releases blocks, and promises those that nobody else has to a claim.
func (r *Blocks) giveBack(c *block.Claim, blocks []block.Block) error {
	before := r.alloc.Available()
	err := r.release(blocks)
	if n := r.alloc.Available() - before; c != nil && err == nil && n > 0 {
		err = r.alloc.Reserve([]block.Reservation{{Claim: c, Blocks: c.Blocks() + n}})
	}
	return err
}

// Reclaim gives up the references whose fence was reached, and notes before that what the device has written:
// by the time an entry is given up, and may be evicted next, the store below was notified. The end
// of a path is never given up after its beginning. It returns errors of the device that it meets.
func (r *Blocks) Reclaim() error {
	for r.ask() {
	}
	err := r.settle()
	if r.cache != nil {
		r.cache.Expire()
	}
	kept := r.retired[:0]
	for _, w := range r.retired {
		if !w.fence.done {
			kept = append(kept, w)
			continue
		}
		err = errors.Join(err, r.Observe(w.fence.err))
		if w.path {
			err = errors.Join(err, r.tree.Release(w.blocks))
		} else {
			err = errors.Join(err, r.giveBack(w.claim, w.blocks))
		}
		r.Drop(w.fence)
		r.lists = append(r.lists, w.blocks[:0])
	}
	clear(r.retired[len(kept):])
	r.retired = kept
	return err
}

// ask asks each fence that something waits for, and reports whether one was newly reached. Whatever comes before that one
// on the device may have been asked too early: only after a call that finds nothing new are all of them known to
// be reached. Latest first, one more call usually suffices.
func (r *Blocks) ask() (news bool) {
	var asked *Fence
	ask := func(f *Fence) {
		if f != asked && !f.done { // a step gives up blocks of many sequences
			asked = f
			news = f.Reached() || news
		}
	}
	for i := len(r.retired) - 1; i >= 0; i-- {
		ask(r.retired[i].fence)
	}
	asked = nil
	for i := len(r.publications) - 1; i >= 0; i-- {
		ask(r.publications[i].fence)
	}
	return news
}
