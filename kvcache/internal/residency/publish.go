package residency

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// publication is an entry of the tree whose content a step on the device is still writing.
type publication struct {
	fence  *Fence
	block  block.Block
	number int // in the order in which they began
}

// Published reports whether the prefix tree has a block, so that nobody may write it.
func (r *Blocks) Published(b block.Block) bool {
	if r.cache == nil || b == (block.Block{}) {
		return false
	}
	known, _ := r.cache.Has(b)
	return known
}

// Writer is the step that writes what is at an entry of the tree; nil: it is written.
func (r *Blocks) Writer(b block.Block) *Fence { return r.writers[b.ID] }

// OrderKnown puts a stream after those that write the blocks which Publish of the same path would
// return in place of its owner's: who waits for the stream's step waits for theirs.
func (r *Blocks) OrderKnown(at prefix.Path, tokens []uint32, s backend.Stream) error {
	r.known = r.tree.Replacements(r.known[:0], at, tokens)
	for _, known := range r.known {
		if err := r.writers[known.ID].Order(s); err != nil {
			return err
		}
	}
	return nil
}

// KnownWritten reports whether the steps that OrderKnown would wait for are done, f aside, which is the owner's: then
// Publish needs no order.
func (r *Blocks) KnownWritten(f *Fence, at prefix.Path, tokens []uint32) bool {
	r.known = r.tree.Replacements(r.known[:0], at, tokens)
	for _, known := range r.known {
		if !r.Written(f, known) {
			return false
		}
	}
	return true
}

// Written reports whether the step that writes an entry of the tree is done, or is f.
func (r *Blocks) Written(f *Fence, e block.Block) bool {
	w := r.writers[e.ID]
	return w == nil || w == f || w.Reached()
}

// Defined reports whether the steps that write an entry of the tree are done, and none of them has failed.
func (r *Blocks) Defined(e block.Block) bool {
	for _, w := range r.publications {
		if w.block == e && (!w.fence.Reached() || w.fence.err != nil) {
			return false
		}
	}
	return true
}

// Publish puts entries for tokens into the tree, with the blocks that held has of each part, which a step writes, whose fence is f. The
// steps in earlier wrote them, too. Where the tree has equal ones, those take the place of the owner's. It returns how many entries
// are the owner's then, and path with those that it owns besides blocks: see group.Cache.Insert. prefix.ErrDetached where the tree was
// cleared under their owner.
func (r *Blocks) Publish(f *Fence, earlier *Writers, path []block.Block, at prefix.Path, tokens []uint32, held func(part, i int) *block.Block) (n int, _ []block.Block, err error) {
	n, path, old, err := r.cache.Insert(path, r.replaced[:0], at, tokens, held)
	r.replaced = old[:0]
	if err != nil {
		return n, path, err
	}
	for _, e := range r.cache.Wrote() { // not those that others write
		r.Writes(f, earlier, e)
	}
	return n, path, r.Retire(f, old)
}

// Writes notes that a step, which comes after those before it that do, writes something of an entry of the tree, as the steps of
// earlier did before.
func (r *Blocks) Writes(f *Fence, earlier *Writers, e block.Block) {
	if f == nil {
		r.tell(e)
		return
	}
	noted := r.writers[e.ID] == f
	for _, s := range earlier.steps {
		if s.fence == f || s.fence.done && s.fence.err == nil {
			continue
		}
		r.publish(s.fence, e)
		noted = false // who reads the entry waits for the last one
	}
	if !noted {
		r.writers[e.ID] = f
		r.publish(f, e)
	}
	if r.OnWriting != nil {
		r.OnWriting()
	}
}

func (r *Blocks) publish(f *Fence, e block.Block) {
	r.published++
	r.publications = append(r.publications, publication{f.Hold(), e, r.published})
}

// settle forgets the fences of published blocks whose content is written, those that were asked. What a
// device failed to write is taken out of the tree, and undefined is told: also after a step of another
// stream that is not done, for a block that nobody owns any more may be evicted, and kept elsewhere.
func (r *Blocks) settle() (err error) {
	pending := r.publications[:0]
	for _, w := range r.publications {
		if !w.fence.done {
			pending = append(pending, w)
			continue
		}
		if w.fence.err != nil {
			if lost := r.Observe(w.fence.err); err == nil {
				err = lost
			}
			r.tree.Forget(w.block)
			r.undefined(w.block, w.fence.err)
		}
		if r.writers[w.block.ID] == w.fence {
			r.writers[w.block.ID] = nil
			if w.fence.err == nil {
				r.tell(w.block)
			}
		}
		r.Drop(w.fence)
	}
	clear(r.publications[len(pending):])
	r.publications = pending
	return err
}

// tell passes on that an entry of the tree is written.
func (r *Blocks) tell(entry block.Block) {
	if r.OnWritten != nil {
		r.OnWritten(entry)
	}
}

// Begun is the number of the last write of an entry of the tree that has begun.
func (r *Blocks) Begun() int { return r.published }

// Writing reports whether a device does writes up to a number.
func (r *Blocks) Writing(upTo int) bool {
	return len(r.publications) > 0 && r.publications[0].number <= upTo
}

// AwaitWritten waits, without the guard, until the device is past the first of the steps that write entries of the tree. It
// reports false where there is none.
func (r *Blocks) AwaitWritten() bool {
	if len(r.publications) == 0 {
		return false
	}
	r.waitFor(r.publications[0].fence.Hold())
	return true
}

// Settled waits, without the guard, until no step writes an entry of the tree any more.
func (r *Blocks) Settled(e block.Block) {
	for w := r.writers[e.ID]; !w.Reached(); w = r.writers[e.ID] {
		r.waitFor(w.Hold())
	}
}

// Forget takes a block, and what hangs on it, out of the tree.
func (r *Blocks) Forget(b block.Block) {
	if r.cache != nil {
		r.cache.Forget(b)
	}
}

// Withdraw takes a block of a single owner out of the tree if it is the end of a path: its owner
// has become shorter and may write it without a copy. Another stays, and is copied then.
func (r *Blocks) Withdraw(b block.Block) {
	if r.cache == nil || b == (block.Block{}) {
		return
	}
	owners, err := r.alloc.Refs(b)
	if known, end := r.cache.Has(b); known && end && err == nil && owners == 1 {
		r.cache.Forget(b)
	}
}

// Unpublish takes blocks out of the tree that are to be written and that nobody else owns, so that
// they need no copies, or one copy less, if that is what err lacks. A cache must not make
// a step fail that would do without. writing has a block once for each of its owners who will
// write it.
func (r *Blocks) Unpublish(err error, writing []block.Block) bool {
	var short block.ErrOutOfBlocks
	if !errors.As(err, &short) || r.awaited != nil { // what comes back may suffice
		return false
	}
	shared := map[block.Block]int{} // by how many of the writers
	for _, b := range writing {
		shared[b]++
	}
	var alone []block.Block
	for _, b := range writing {
		if owners, err := r.Owners(b); err == nil && owners == shared[b] && r.Published(b) {
			alone = append(alone, b)
		}
		delete(shared, b)
	}
	if len(alone) == 0 || len(alone) < short.Need-short.Free {
		return false
	}
	for _, b := range alone {
		r.cache.Forget(b)
	}
	return true
}
