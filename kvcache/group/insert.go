package group

import (
	"cmp"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Insert puts a sequence's entries into the tree after p.Parent, for tokens, with the blocks that it has of
// each part: held is where it has that of a number from the first of the tokens on, or nil. Where the tree has an entry
// already the sequence owns that one, and blocks of it take the place of the sequence's own, which are
// appended to old: the caller releases them when no work uses them any more. Blocks that an entry lacks are put there.
//
// It returns how many entries, from the first on, are the caller's then: as many as Tree.Insert says, or fewer where there is no room for
// more, where claims leave no blocks to take, where the tokens end inside of an entry that goes on, or where a block of
// a Full part is with another entry. Those that it owns besides blocks are appended to path.
func (c *Cache) Insert(path, old []block.Block, p prefix.Path, tokens []uint32, held func(part, i int) *block.Block) (n int, _, _ []block.Block, err error) {
	if c.tree == nil || held == nil {
		return 0, path, old, prefix.ErrArgument{Op: "insert", Why: "the cache was not made by New, or held is nil"}
	}
	return c.layout().insert(path, old, p, tokens, held)
}

func (c rows) insert(path, old []block.Block, p prefix.Path, tokens []uint32, held func(part, i int) *block.Block) (_ int, _, _ []block.Block, err error) {
	size := c.Tree().BlockSize()
	c.wrote = c.wrote[:0]
	ids, err := c.fresh(p.Root, (len(tokens)+size-1)/size)
	if err != nil || len(ids) == 0 {
		return 0, path, old, err
	}
	n, unused, err := c.Tree().Insert(nil, p, tokens[:min(len(tokens), len(ids)*size)], ids)
	if err != nil {
		_ = c.Entries().ReleaseN(ids, 0) // ours
		return 0, path, old, err
	}
	known := len(unused) // the entries before are another sequence's
	_ = c.Entries().ReleaseN(append(unused, ids[n:]...), 0)
	for i, e := range ids[:n] {
		own := min(len(tokens)-i*size, size)
		if i >= known && own < size {
			c.short[e.ID] = own
		}
		if c.tokens(e) != own || !c.whole(i, e, held) || c.blocks().Available() < c.width && !c.same(i, e, held) {
			if n > known { // nobody finds what has no blocks
				c.Tree().Forget(ids[max(i, known)])
			}
			return i, append(path, ids[:i]...), old, c.Tree().Release(ids[i:n])
		}
		if old, err = c.put(old, i, e, held); err != nil {
			return i, append(path, ids[:i]...), old, err
		}
	}
	return n, append(path, ids[:n]...), old, nil
}

// tokens is how many an entry has.
func (c *Cache) tokens(e block.Block) int {
	if n, short := c.short[e.ID]; short {
		return n
	}
	return c.Tree().BlockSize()
}

// whole reports whether an entry has blocks of all Full parts, or can get those of the sequence: a block is with one
// entry at most.
func (c rows) whole(i int, e block.Block, held func(part, i int) *block.Block) bool {
	for part := range c.parts {
		each := c.parts[part].Each
		for j, have := range c.row(e, part) {
			if c.parts[part].keeps() != kind.All || have != (block.Block{}) {
				continue
			}
			if own := held(part, i*each+j); own != nil && c.placed(*own) {
				return false
			}
		}
	}
	return true
}

// fresh is n entries for a sequence of scope r, or as many as there are.
func (c rows) fresh(r prefix.Root, n int) ([]block.Block, error) {
	for c.Entries().Free() < n && c.Tree().Evict(1, r) {
	}
	return c.Entries().AllocateN(nil, min(n, c.Entries().Free()))
}

// same reports whether an entry has no blocks but those of the sequence.
func (c rows) same(i int, e block.Block, held func(part, i int) *block.Block) bool {
	for part := range c.parts {
		each := c.parts[part].Each
		for j, have := range c.row(e, part) {
			if own := held(part, i*each+j); have != (block.Block{}) && own != nil && *own != have {
				return false
			}
		}
	}
	return true
}

// put brings the blocks of an entry and those of the sequence together.
func (c rows) put(old []block.Block, i int, e block.Block, held func(part, i int) *block.Block) ([]block.Block, error) {
	wrote := false
	for part := range c.parts {
		each := c.parts[part].Each
		for j, have := range c.row(e, part) {
			own := held(part, i*each+j)
			switch {
			case own == nil || *own == have:
			case have == block.Block{}:
				if owners, err := c.blocks().Refs(*own); err != nil || owners < 1 {
					return old, cmp.Or[error](err, block.ErrBlock{Op: "insert", Block: *own, Why: block.ErrNotHeld})
				}
				if !c.placed(*own) {
					c.attach(e, part, j, *own)
					wrote = true
				}
			default:
				if err := c.retain(have); err != nil {
					return old, err
				}
				old, *own = append(old, *own), have
			}
		}
	}
	if wrote {
		c.wrote = append(c.wrote, e)
	}
	return old, nil
}

// Wrote are the entries that the last Insert put blocks of the sequence to: valid until the next one.
func (c *Cache) Wrote() []block.Block { return c.wrote }

// Checkpoint puts the states after an entry's last token with it, unless it has some. It reports whether it did.
func (c *Cache) Checkpoint(e block.Block, part int, state block.Block) bool {
	known, _ := c.Tree().Has(e)
	row := c.row(e, part)
	if owners, err := c.blocks().Refs(state); err != nil || owners < 1 || !known || row == nil || row[0] != (block.Block{}) || c.placed(state) {
		return false
	}
	c.attach(e, part, 0, state)
	return true
}
