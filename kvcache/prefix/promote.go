package prefix

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// follow notes in a match the offloaded entries that continue the query, after the full blocks of which
// the last one is n's.
func (t *Tree) follow(m *Match, n *node, q Query) {
	i := m.Blocks - n.depth
	if t.offloaded.size() == 0 || i != n.resident() {
		return
	}
	now := t.moment()
	for at := m.Blocks; (at+1)*t.blockSize <= len(q.Tokens); at++ {
		tokens, extra := q.tokens(at, t.blockSize), q.extra(at)
		if i == len(n.blocks) {
			if n = t.farChild(n, tokens, extra, q.Accept); n == nil {
				return
			}
			i = 0
		}
		have, mk := n.label(i, t.blockSize)
		if mk.extra != extra || mk.fidelity&^q.Accept != 0 || !slices.Equal(have, tokens) || t.offloaded.entry(n.blocks[i].ID).expired(now) {
			return
		}
		m.Offloaded, m.far = m.Offloaded+t.blockSize, n
		i++
	}
}

// farChild is the child of n that is offloaded and begins with a block, the most exact one; nil:
// there is none.
func (t *Tree) farChild(n *node, tokens []uint32, extra Key, accept Fidelity) *node {
	for f := Exact; ; {
		if c, _, exact := t.child(n.farKids, tokens, mark{extra, f}); exact {
			return c
		}
		if f = (f - accept) & accept; f == Exact {
			return nil
		}
	}
}

// OffloadedKeys appends the keys of a match's offloaded blocks to dst, in order: Match.Offloaded
// tokens, a key for each BlockSize of them. A tier is asked for these keys. m is the Match of the
// same root and query from Lookup, Match or Take; the tree is searched again when it has changed
// since. It may be called at any time.
func (t *Tree) OffloadedKeys(dst []Key, r Root, q Query, m Match) []Key {
	if t.alloc == nil {
		return dst
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if m.version != t.version || m.asked != question(r, q) {
		m = t.match(r, q)
	}
	had, count, n := len(dst), m.Offloaded/t.blockSize, m.far
	dst = slices.Grow(dst, count)[:had+count]
	for ; count > 0; count-- {
		for n.depth >= m.Blocks+count {
			n = n.parent
		}
		dst[had+count-1] = n.keys[m.Blocks+count-1-n.depth]
	}
	return dst
}

// Promote makes offloaded entries resident: blocks[i], whose only owner is the caller, holds the
// content of keys[i], or will before it is read. keys are the first of OffloadedKeys, and parent is
// the last full block of the match, which the caller has taken; zero: there is none. The caller
// owns the blocks as after Take.
//
// n is the number of blocks, from the first on, that are in the tree afterwards. It is less than
// len(blocks) when an entry was dropped or made resident in the meantime, and when the salt's quota
// is used up; the caller can Insert the other blocks. ErrDetached when the parent is not in the
// tree, ErrArgument when a key does not follow the one before it; after an error nothing has
// changed. The caller must hold the lock that guards the allocator.
func (t *Tree) Promote(parent block.Block, keys []Key, blocks []block.Block, k RetentionHint) (n int, err error) {
	if err := t.made("promote"); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.checkPromote(parent, keys, blocks, k); err != nil {
		return 0, err
	}
	t.expire()
	var root *root
	for last := parent; n < len(keys); last, n = blocks[n], n+1 {
		id, known := t.offloaded.numbers[keys[n]]
		if !known {
			break
		}
		if root == nil {
			root = t.offloaded.entry(id).node.root
			t.keepPath(t.at(parent), k)
		}
		if !t.admit(root.tenant) {
			break
		}
		if id, known = t.offloaded.numbers[keys[n]]; !known { // it had to go for what made room
			break
		}
		e := t.offloaded.entry(id)
		label, m := e.node.label(e.index(), t.blockSize)
		a := addition{blocks[n], label, m, int(e.depth), 1, k}
		t.extend(t.outgrow(root, last, label, m), a)
	}
	if n > 0 {
		at, depth := t.behind(root, blocks[n-1])
		t.announce(at, depth-n, depth)
	}
	return n, nil
}

func (t *Tree) checkPromote(parent block.Block, keys []Key, blocks []block.Block, k RetentionHint) error {
	if len(keys) != len(blocks) {
		return ErrArgument{Op: "promote", Why: fmt.Sprintf("%d blocks for %d keys", len(blocks), len(keys))}
	}
	if err := k.Check("promote"); err != nil {
		return err
	}
	if err := t.fit("promote"); err != nil {
		return err
	}
	above := t.at(parent)
	if parent != (block.Block{}) {
		if above == nil {
			return ErrDetached
		}
		if above.state == queued {
			return block.ErrBlock{Op: "promote behind", Block: parent, Why: block.ErrNotHeld}
		}
	}
	for i, key := range keys {
		id, known := t.offloaded.numbers[key]
		if !known {
			break
		}
		e := t.offloaded.entry(id)
		if _, parent, _ := t.parent(e.node, e.index()); parent != above {
			return ErrArgument{Op: "promote", Why: fmt.Sprintf("key %d does not follow the one before it, or the parent", i)}
		}
		above = e
	}
	t.clock++ // as in checkInsert
	for _, b := range blocks {
		refs, err := t.alloc.Refs(b)
		switch e := &t.entries[min(int(b.ID), len(t.entries)-1)]; {
		case err != nil:
			return err
		case refs == 0:
			return block.ErrBlock{Op: "promote", Block: b, Why: block.ErrNotHeld}
		case refs > 1 || e.node != nil || e.hash == t.clock:
			return ErrArgument{Op: "promote", Why: fmt.Sprintf("block %d has another owner, or a place in the tree already", b.ID)}
		default:
			e.hash = t.clock
		}
	}
	return nil
}

// Drop removes the offloaded entry with a key, and all entries below it, from the tree and returns
// how many there were: 0 when the key is unknown or its block is resident. A tier calls it when it
// has lost the only copy. The caller must hold the lock that guards the allocator.
func (t *Tree) Drop(key Key) int {
	if t.alloc == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id, known := t.offloaded.numbers[key]
	if !known {
		return 0
	}
	e, before := t.offloaded.entry(id), t.offloaded.size()
	t.ghosts.add(e.hash)
	t.forget(e.node, e.index())
	return before - t.offloaded.size()
}
