package prefix

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Path says where blocks are inserted, and how.
type Path struct {
	Root   Root
	Parent block.Block // the block before the first one, in the tree; zero: none
	// Extra and Fidelity are those of the inserted blocks; see Query.
	Extra    []Key
	Fidelity Fidelity
	RetentionHint
	// Private stops the insertion where another sequence has inserted the same content, resident or
	// offloaded: the caller keeps its own blocks from there on, instead of sharing.
	Private bool
}

// Insert adds the caller's blocks to the tree: blocks[i] holds the keys and values of the i-th
// BlockSize tokens after the parent. Only the last block may have fewer tokens; nothing can be
// inserted after such a block, and a longer path with the same beginning replaces it.
//
// The caller stays an owner. Where the tree already has a block with the same content, blocks[i] is
// replaced by that block, with the caller as an owner, and the caller's own is appended to old: the
// caller releases it when no work uses it any more. So two prompts that were computed at the same
// time share their blocks afterwards. An offloaded entry gets the caller's block and is resident
// again.
//
// n is the number of blocks, from the first on, that are in the tree afterwards and owned by the
// caller. It is less than len(blocks) when the quota of the salt is used up, with Private, and when
// a block that is new to the tree has other owners, which may not own the blocks before it.
// ErrDetached when the parent is not in the tree; after an error nothing has changed.
func (t *Tree) Insert(old []block.Block, p Path, tokens []uint32, blocks []block.Block) (n int, _ []block.Block, err error) {
	if err := t.made("insert"); err != nil {
		return 0, old, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.checkInsert(p, tokens, blocks); err != nil {
		return 0, old, err
	}
	if len(blocks) == 0 {
		return 0, old, nil
	}
	t.expire()
	t.keepPath(t.at(p.Parent), p.RetentionHint)
	root := t.makeRoot(p.Root)
	root.busy = true
	last := p.Parent
	at, depth := t.behind(root, last)
	q, fresh := Query{Tokens: tokens, Extra: p.Extra}, 0
	for ; n < len(blocks); last, n = blocks[n], n+1 {
		label, m := q.tokens(n, t.blockSize), mark{q.extra(n), p.Fidelity}
		next, i := t.next(at, depth, label, m)
		if next == nil {
			if refs, err := t.alloc.Refs(blocks[n]); err != nil || refs > 1 || p.Private && t.offloaded.size() > 0 && t.nextOffloaded(at, depth, label, m) != nil || !t.admit(root.tenant) {
				break
			}
			at = t.outgrow(root, last, label, m)
			at = t.extend(at, addition{blocks[n], label, m, depth, len(blocks) - n, p.RetentionHint})
			depth++
			fresh++
			continue
		}
		if have := next.blocks[i]; have != blocks[n] {
			if p.Private || t.retain(have) != nil { // or all that is cached is claimed
				break
			}
			old, blocks[n] = append(old, blocks[n]), have
		}
		t.entries[blocks[n].ID].keep(p.RetentionHint)
		at, depth = next, depth+1
	}
	if fresh > 0 {
		t.version++
		t.announce(at, depth-fresh, depth)
	}
	root.busy = false
	t.prune(root)
	return n, old, nil
}

// behind is the node that a block of the tree ends, the root's for none, and the
// number of blocks on the path to its end.
func (t *Tree) behind(root *root, b block.Block) (*node, int) {
	if e := t.at(b); e != nil {
		return e.node, int(e.depth) + 1
	}
	return &root.node, 0
}

// next is the node and the place in it of the resident block that goes on with a label after
// that many blocks of a path that ends in at. A label of fewer tokens than a block is content
// with the beginning of a block.
func (t *Tree) next(at *node, depth int, label []uint32, m mark) (*node, int) {
	if i := depth - at.depth; i < at.resident() {
		tokens, have := at.label(i, t.blockSize)
		if m == have && common(tokens, label) == len(label) {
			return at, i
		}
		return nil, 0
	}
	if c, shared, _ := t.child(at.kids, label, m); shared == len(label) {
		return c, 0
	}
	return nil, 0
}

// nextOffloaded is the node of the block that is offloaded and goes on with exactly this label after
// that many blocks of a path that ends in at, where no resident one does: next has been asked.
// nil: there is none.
func (t *Tree) nextOffloaded(at *node, depth int, label []uint32, m mark) *node {
	if i := depth - at.depth; i < len(at.blocks) {
		if tokens, have := at.label(i, t.blockSize); m == have && slices.Equal(tokens, label) {
			return at
		}
		return nil
	}
	if c, _, exact := t.child(at.farKids, label, m); exact {
		return c
	}
	return nil
}

// Replacements appends the blocks that an Insert of these tokens would put in the place of
// the caller's, as far as it comes to them first. It changes nothing.
func (t *Tree) Replacements(dst []block.Block, p Path, tokens []uint32) []block.Block {
	t.mu.RLock()
	defer t.mu.RUnlock()
	root := t.root(p.Root)
	if root == nil || p.Parent != (block.Block{}) && t.at(p.Parent) == nil {
		return dst
	}
	at, depth := t.behind(root, p.Parent)
	q := Query{Tokens: tokens, Extra: p.Extra}
	for n := 0; n*t.blockSize < len(tokens); n++ {
		next, i := t.next(at, depth, q.tokens(n, t.blockSize), mark{q.extra(n), p.Fidelity})
		if next == nil {
			break
		}
		dst = append(dst, next.blocks[i])
		at, depth = next, depth+1
	}
	return dst
}

func (t *Tree) checkInsert(p Path, tokens []uint32, blocks []block.Block) error {
	full := len(tokens) / t.blockSize
	if len(tokens)%t.blockSize != 0 {
		full++
	}
	if len(blocks) != full {
		return ErrArgument{Op: "insert", Why: fmt.Sprintf("%d blocks for %d tokens: need %d", len(blocks), len(tokens), full)}
	}
	if err := p.RetentionHint.Check("insert"); err != nil {
		return err
	}
	if err := t.fit("insert"); err != nil {
		return err
	}
	if p.Parent != (block.Block{}) {
		e := t.at(p.Parent)
		switch {
		case e == nil || e.node.root.Key != p.Root.Key:
			return ErrDetached
		case e.state == queued:
			return block.ErrBlock{Op: "insert behind", Block: p.Parent, Why: block.ErrNotHeld}
		case e.node.leafTail(e.index()) && e.node.partial(t.blockSize):
			return ErrArgument{Op: "insert", Why: "the parent is a block that is not full"}
		case int(e.depth) > math.MaxInt32-len(blocks):
			return ErrArgument{Op: "insert", Why: "the path has too many blocks"}
		}
	}
	hash := p.Root.Key.word()
	if parent := t.at(p.Parent); parent != nil {
		hash = parent.hash
	}
	q := Query{Tokens: tokens, Extra: p.Extra}
	t.clock++ // no entry without a place has this for its hash
	for i, b := range blocks {
		hash = hashLabel(hash, q.tokens(i, t.blockSize), mark{q.extra(i), p.Fidelity})
		refs, err := t.alloc.Refs(b)
		if err != nil {
			return err
		}
		if refs == 0 {
			return block.ErrBlock{Op: "insert", Block: b, Why: block.ErrNotHeld}
		}
		e := &t.entries[b.ID]
		if e.node != nil && e.hash != hash || e.node == nil && e.hash == t.clock {
			return ErrArgument{Op: "insert", Why: fmt.Sprintf("block %d has another place in the tree", b.ID)}
		}
		if e.node == nil {
			e.hash = t.clock
		}
	}
	return nil
}

// fit follows an allocator that has grown. ErrArgument where its blocks have the numbers of
// those that are offloaded.
func (t *Tree) fit(op string) error {
	if uint64(t.alloc.Total())+uint64(t.offloaded.most) > uint64(none) {
		return ErrArgument{Op: op, Why: fmt.Sprintf("%d blocks, and %d that may be offloaded: need fewer than 2^32 in all", t.alloc.Total(), t.offloaded.most)}
	}
	if n := t.alloc.Total() - len(t.entries); n > 0 {
		t.entries = append(t.entries, make([]entry, n)...)
		t.policies.Grow(n)
	}
	t.ghosts.grow(len(t.entries))
	t.growFirsts()
	return nil
}
