package prefix

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// follow notes in a match what goes on with the query away, behind the full blocks of which
// the last one is n's.
func (t *Tree) follow(m *Match, n *node, q Query) {
	i := m.Blocks - n.depth
	if t.away.size == 0 || i != n.resident() {
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
		if mk.extra != extra || mk.fidelity&^q.Accept != 0 || !slices.Equal(have, tokens) || t.away.entry(n.blocks[i].ID).expired(now) {
			return
		}
		m.Away, m.far = m.Away+t.blockSize, n
		i++
	}
}

// farChild is the child of n that is away and begins with a block, the most exact one; nil:
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

// AwayKeys appends the keys of the blocks that a match has away to dst, in order: of
// Match.Away tokens, a key each BlockSize. m is what Lookup, Match or Take said of the same
// root and query; what has changed since is looked up again. They are what a tier is asked for.
// It may be called at any time.
func (t *Tree) AwayKeys(dst []Key, r Root, q Query, m Match) []Key {
	if t.alloc == nil {
		return dst
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if m.version != t.version || m.asked != question(r, q) {
		m = t.match(r, q)
	}
	had, count, n := len(dst), m.Away/t.blockSize, m.far
	dst = slices.Grow(dst, count)[:had+count]
	for ; count > 0; count-- {
		for n.depth >= m.Blocks+count {
			n = n.parent
		}
		dst[had+count-1] = n.keys[m.Blocks+count-1-n.depth]
	}
	return dst
}

// Promote makes entries that are away resident: blocks[i], of which the caller is the only
// owner, holds the content of keys[i] from here on, or will before anybody reads it. The keys
// are the first of AwayKeys, and parent is the last of the match's full blocks, which the
// caller took; zero: it has none. The caller owns the blocks as after Take.
//
// n is the number of blocks, from the first on, that are in the tree afterwards. It is less
// than all where an entry is not away any more, dropped or made resident by another, and where
// the salt's quota is used up: the others are the caller's alone, as blocks that he is about to
// Insert. ErrDetached when the parent is not in the tree, ErrArgument when a key
// does not follow the one before it; after an error nothing has changed. It is called under the
// lock that guards the allocator.
func (t *Tree) Promote(parent block.Block, keys []Key, blocks []block.Block, k Keep) (n int, err error) {
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
		id, known := t.away.numbers[keys[n]]
		if !known {
			break
		}
		if root == nil {
			root = t.away.entry(id).node.root
			t.keepPath(t.at(parent), k)
		}
		if !t.admit(root.tenant) {
			break
		}
		if id, known = t.away.numbers[keys[n]]; !known { // it had to go for what made room
			break
		}
		e := t.away.entry(id)
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

func (t *Tree) checkPromote(parent block.Block, keys []Key, blocks []block.Block, k Keep) error {
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
		id, known := t.away.numbers[key]
		if !known {
			break
		}
		e := t.away.entry(id)
		if t.parent(e.node, e.index()) != above {
			return ErrArgument{Op: "promote", Why: fmt.Sprintf("key %d does not follow the one before it, or the parent", i)}
		}
		above = e
	}
	t.clock++ // no entry has this stamp
	for _, b := range blocks {
		refs, err := t.alloc.Refs(b)
		switch e := &t.entries[min(int(b.ID), len(t.entries)-1)]; {
		case err != nil:
			return err
		case refs == 0:
			return block.ErrBlock{Op: "promote", Block: b, Why: block.ErrNotHeld}
		case refs > 1 || e.node != nil || e.stamp == t.clock:
			return ErrArgument{Op: "promote", Why: fmt.Sprintf("block %d has another owner, or a place in the tree already", b.ID)}
		default:
			e.stamp = t.clock
		}
	}
	return nil
}

// Drop takes the entry with a key out of the tree if it is away, and all that is below it,
// and returns how many entries that were: 0 where the key is unknown or its block is
// resident. A tier calls it that has lost, or gives up, what no other place has.
// It is called under the lock that guards the allocator.
func (t *Tree) Drop(key Key) int {
	if t.alloc == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id, known := t.away.numbers[key]
	if !known {
		return 0
	}
	e, before := t.away.entry(id), t.away.size
	t.ghosts.add(e.hash)
	t.forget(e.node, e.index())
	return before - t.away.size
}
