package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// Address is what a block in the tree is called outside of the process.
type Address struct {
	Key    Key
	Parent Key // of the block before it; zero: it is the first
	Root   Key // of its scope
	// Whole says that the block is full and exact: what a lower tier can give back to everybody who asks for its tokens.
	Whole bool
}

// Address returns that of a block; false: the tree does not have it. The caller must hold the lock that guards the
// allocator.
func (t *Tree) Address(b block.Block) (Address, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.at(b)
	if e == nil {
		return Address{}, false
	}
	n, i := e.node, e.index()
	a := Address{Key: t.keysOf(n)[i], Root: n.root.Key}
	if n.depth+i > 0 {
		a.Parent = t.keyBefore(n, i)
	}
	tokens, m := n.label(i, t.blockSize)
	a.Whole = len(tokens) == t.blockSize && m.fidelity == Exact
	return a, true
}

// Whole is Address.Whole, without the cost of keys; false also if the tree does not have the block.
func (t *Tree) Whole(b block.Block) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.at(b)
	if e == nil {
		return false
	}
	tokens, m := e.node.label(e.index(), t.blockSize)
	return len(tokens) == t.blockSize && m.fidelity == Exact
}
