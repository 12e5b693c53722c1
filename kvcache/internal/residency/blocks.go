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
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Blocks is the residency of one store of a pool. It takes no lock: its methods are called under the
// one that guards the pool, and none waits for the device (see Fences.Retry). Those of Tree that only look need none.
type Blocks struct {
	*Fences // of the pool
	alloc   *block.BlockAllocator
	tree    *prefix.Tree // nil: nothing is found again
	retired []retired
	lists   [][]block.Block // of what was retired, to be used again

	writers      []*Fence // by block: the step that writes a block of the tree
	publications []publication
	offered      []block.Block // scratch
	known        []block.Block
	replaced     []block.Block

	// undefined is told of blocks whose content a device failed to write.
	undefined func(b block.Block, err error)
}

// New returns the residency of n blocks, all of them free, on the device of fences, which stores of
// a pool have in common. Without a tree's configuration nothing is found again. undefined is told,
// under the caller's lock, of each block in the tree that a device failed to write.
func New(fences *Fences, n int, tree *prefix.Config, undefined func(b block.Block, err error)) (*Blocks, error) {
	alloc, err := block.New(n)
	if err != nil {
		return nil, err
	}
	r := &Blocks{Fences: fences, alloc: alloc, undefined: undefined}
	if tree != nil {
		r.writers = make([]*Fence, n)
		r.tree, err = prefix.New(alloc, *tree)
		fences.trees = append(fences.trees, r.tree)
	}
	return r, err
}

// Tree is where blocks are found by the tokens that they hold; nil: nowhere. Blocks enter and
// leave it by Publish, Forget and Release.
func (r *Blocks) Tree() *prefix.Tree { return r.tree }

// Close gives up everything. The device is done with it: see Fences.Close.
func (r *Blocks) Close() {
	if r.tree != nil {
		r.tree.Close()
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
