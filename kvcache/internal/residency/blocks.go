// Package residency says where the blocks of a pool are and who may use them: which are free,
// which hold what somebody may ask for again, which have owners, and which the device has not
// finished with. It knows no device and no bytes: work on a device is known by its fences, and
// what a block holds by its place in the prefix tree.
//
// Every block of the allocator is free, cached (nobody owns it, the tree knows what it holds) or
// held. Who gives a block up may still have work on the device that reads it: such a block stays
// held until the fence of that work is reached. A block in the tree may be in the middle of being
// written: who reads it waits, on the device, for its writer.
package residency

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Blocks is the residency of one store of a pool. It takes no lock: its methods are called under the
// one that guards the pool, and none waits for the device (see Fences.Retry). Those of Tree that only look need none.
type Blocks struct {
	*Fences // of the pool
	alloc   *block.BlockAllocator
	cache   *group.Cache // nil: nothing is found again
	tree    *prefix.Tree // the cache's
	retired []retired
	lists   [][]block.Block // of what was retired, to be used again

	writers      []*Fence // by entry of the tree: the step that writes what is there
	publications []publication
	published    int           // ever
	known        []block.Block // scratch
	replaced     []block.Block

	// undefined is told of entries of the tree whose content a device failed to write.
	undefined func(b block.Block, err error)
	// OnWritten is told of entries of the tree that a device has written by now, or whose content was there when they
	// were published. nil: nobody is. It is called under the guard, and changes nothing here.
	OnWritten func(entry block.Block)
	// OnWriting is told, likewise, that a device writes entries that were published: see AwaitWritten.
	OnWriting func()
}

// New returns the residency of n blocks, all of them free, on the device of fences, which stores of
// a pool have in common. Without a cache's configuration nothing is found again. undefined is called,
// under the caller's lock, with each entry of the tree that a device failed to write.
func New(fences *Fences, n int, cfg *group.Config, undefined func(entry block.Block, err error)) (*Blocks, error) {
	alloc, err := block.New(n)
	if err != nil {
		return nil, err
	}
	r := &Blocks{Fences: fences, alloc: alloc, undefined: undefined}
	if cfg == nil {
		return r, nil
	}
	if r.cache, err = group.New(alloc, *cfg); err != nil {
		return nil, err
	}
	r.tree, r.writers = r.cache.Tree(), make([]*Fence, max(n, cfg.Entries))
	fences.trees = append(fences.trees, r.tree)
	return r, nil
}

// Groups is what the tree has of each part; nil: nothing is found again.
func (r *Blocks) Groups() *group.Cache { return r.cache }

// Tree is where blocks are found by the tokens that they hold; nil: nowhere. Blocks enter and
// leave it by Publish, Forget and Release.
func (r *Blocks) Tree() *prefix.Tree { return r.tree }

// Close gives up everything. The device is done with it: see Fences.Close.
func (r *Blocks) Close() {
	if r.cache != nil {
		r.cache.Close()
	}
	r.retired, r.lists, r.publications = nil, nil, nil
}

// Share makes one more owner of each of blocks that have owners: all, or with an error none.
func (r *Blocks) Share(blocks []block.Block) error { return r.alloc.RetainN(blocks) }

// Owners is how many owners a block has; 0 for the zero Block.
func (r *Blocks) Owners(b block.Block) (int, error) {
	if b == (block.Block{}) {
		return 0, nil
	}
	return r.alloc.Refs(b)
}

// Writable reports whether a block may be written by its owner: nobody else owns it, and it is not
// offered to others.
func (r *Blocks) Writable(b block.Block) (bool, error) {
	owners, err := r.Owners(b)
	return owners <= 1 && !r.Published(b), err
}

// Cancel ends a claim, and what it waits for.
func (r *Blocks) Cancel(c *block.Claim) {
	for i := range r.retired {
		if r.retired[i].claim == c {
			r.retired[i].claim = nil
		}
	}
	r.alloc.Cancel(c)
}
