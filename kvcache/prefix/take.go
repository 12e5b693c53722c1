package prefix

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Take makes the caller an owner of a match's blocks, which it appends to dst: the path is not
// evicted until the caller has released it. m is the Match from Lookup of the same root and query,
// whose slices must not have changed; the tree is searched again when it has changed since. The
// offloaded entries that follow count as used now; see Promote. The match is shorter when claims
// leave no block that can be taken. A Take is what statistics count as a lookup and policies as a
// use.
func (t *Tree) Take(dst []block.Block, r Root, q Query, k RetentionHint, m Match) ([]block.Block, Match, error) {
	return t.TakeFirst(dst, r, q, k, m, len(q.Tokens))
}

// TakeFirst is Take of no more than the first tokens of a match: for a reader that needs besides
// what was evicted of the others.
func (t *Tree) TakeFirst(dst []block.Block, r Root, q Query, k RetentionHint, m Match, tokens int) ([]block.Block, Match, error) {
	if err := t.made("take"); err != nil {
		return dst, Match{}, err
	}
	if err := k.Check("take"); err != nil {
		return dst, Match{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if m.version != t.version || m.asked != question(r, q) {
		m = t.match(r, q)
	}
	if tokens < m.Tokens {
		m = t.first(m, tokens)
	}
	had := len(dst)
	dst = m.append(dst)
	for i, b := range dst[had:] {
		waited := t.entries[b.ID].state == queued
		err := t.retain(b)
		if errors.Is(err, block.ErrOutOfBlocks{}) {
			m.Blocks, m.Tail, m.reason = min(m.Blocks, i), 0, NeverSeen
			m.Offloaded, m.far = 0, nil
			m.Fidelity = m.fidelity()
			if m.Tokens = i * t.blockSize; m.Tokens < t.minPrefix { // not worth it any more
				m.Tokens, m.Blocks, m.Fidelity = 0, 0, Exact
				i, err = 0, t.release(dst[had:had+i])
			} else {
				err = nil
			}
			dst = dst[:had+i]
			t.count(r, q, m)
			return dst, m, err
		}
		if err != nil {
			return dst[:had], Match{}, errors.Join(err, t.release(dst[had:had+i]))
		}
		t.used(b.ID, k, waited)
	}
	t.wanted(m)
	t.count(r, q, m)
	return dst, m, nil
}

// First is no more than the first tokens of a match, as TakeFirst takes it. It is called under the lock that guards
// the allocator.
func (t *Tree) First(m Match, tokens int) Match {
	if tokens >= m.Tokens {
		return m
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.first(m, tokens)
}

// first is the part of a match that is its first tokens, fewer than it has.
func (t *Tree) first(m Match, tokens int) Match {
	if tokens < max(t.minPrefix, 1) { // not worth it
		tokens = 0
	}
	if m.end == nil { // not a match of a tree
		return Match{}
	}
	m.Tokens, m.Blocks, m.Tail = tokens, tokens/t.blockSize, tokens%t.blockSize
	m.Offloaded, m.far, m.reason = 0, nil, WasEvicted
	for m.end.depth >= m.all() && m.end.parent != nil {
		m.end = m.end.parent
	}
	m.Fidelity = m.fidelity()
	return m
}

// retain adds an owner to a block of the tree.
func (t *Tree) retain(b block.Block) error {
	e := t.at(b)
	if e == nil {
		return ErrDetached
	}
	if e.state == held {
		return t.alloc.Retain(b)
	}
	if err := t.alloc.Take(b); err != nil {
		return err
	}
	t.unqueue(b.ID)
	return nil
}

// used notes that a block was taken again.
func (t *Tree) used(id uint32, k RetentionHint, waited bool) {
	e := &t.entries[id]
	e.keep(k)
	e.node.root.tenant.group.Queue().Touch(id, waited)
}

// Release removes the caller as an owner of a path's blocks, given in the order of the path. Blocks
// in the tree, which come first, are cached when they have no other owner; the others are free.
// Either all are released or, with an error, none.
func (t *Tree) Release(bs []block.Block) error {
	if err := t.made("release"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.release(bs)
}

func (t *Tree) release(bs []block.Block) error {
	known := 0
	for known < len(bs) && t.at(bs[known]) != nil {
		known++
	}
	for _, b := range bs[known:] {
		if t.at(b) != nil {
			return ErrArgument{Op: "release", Why: fmt.Sprintf("block %d is in the tree, one before it is not: need a path in its order", b.ID)}
		}
	}
	if err := t.alloc.ReleaseN(bs, known); err != nil {
		return err
	}
	for i := known - 1; i >= 0; i-- { // the end of a path is the first to go
		if refs, err := t.alloc.Refs(bs[i]); err == nil && refs == 0 && t.entries[bs[i].ID].state == held {
			t.enqueue(bs[i].ID)
		}
	}
	if known > 0 {
		t.trim(t.entries[bs[0].ID].node.root.tenant.group)
	}
	return nil
}
