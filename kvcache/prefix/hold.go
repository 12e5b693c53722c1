package prefix

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Hold makes the caller an owner of a block and of those before it on its path, which it appends to dst in the order of the path;
// Release gives them back. It is no use that statistics or policies count. ErrDetached when the tree does not have the block,
// block.ErrOutOfBlocks when some of them are cached and promised to others; then nothing has changed. The caller
// must hold the lock that guards the allocator.
func (t *Tree) Hold(dst []block.Block, b block.Block) ([]block.Block, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.at(b)
	if e == nil {
		return dst, ErrDetached
	}
	had, end := len(dst), int(e.depth)+1
	dst = slices.Grow(dst, end)[:had+end]
	for n := e.node; end > 0; n = n.parent {
		copy(dst[had+n.depth:had+end], n.blocks)
		end = n.depth
	}
	for i, on := range dst[had:] {
		if err := t.retain(on); err != nil {
			_ = t.release(dst[had : had+i]) // taken a moment ago
			return dst[:had], err
		}
	}
	return dst, nil
}
