package group

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Where a cache has one part, which keeps everything, and one block of it in an entry, the entry is that block: one number, one
// count of owners, one order of eviction. The tree is over the caller's blocks then, and nothing is kept besides it: a
// path that somebody owns is a list of blocks. New decides it, and this is all that is different.

// plain reports whether the entries of a configuration are blocks.
func (cfg *Config) plain() bool {
	return len(cfg.Parts) == 1 && cfg.Parts[0].Kind == Full && cfg.Parts[0].Each == 1
}

// Plain reports whether an entry is the block with it. Those of no cache are not.
func (c *Cache) Plain() bool { return c != nil && c.plain }

// only is the run of the only part.
func (c *Cache) only(blocks []block.Block) []Run {
	c.runs[0] = Run{Blocks: blocks}
	return c.runs[:]
}

// has reports whether the tree has a block.
func (c *Cache) has(b block.Block) bool {
	known, _ := c.tree.Has(b)
	return known
}

// takePlain is Take: found is what Peek said, so that nothing is searched again unless the tree has changed since.
func (c *Cache) takePlain(r prefix.Root, q prefix.Query, k prefix.RetentionHint, found prefix.Match) (f Found, err error) {
	c.path, f.Match, err = c.tree.Take(c.path[:0], r, q, k, found)
	f.Known, f.Runs = f.Tokens, c.only(c.path)
	if n := len(c.path); n > 0 {
		f.Last = c.path[n-1]
	}
	return f, err
}

// handPlain is Hand to a caller that has the first n tokens: it keeps the full blocks of these.
func (c *Cache) handPlain(path []block.Block, n int) (f Found, err error) {
	size := c.tree.BlockSize()
	f.Tokens, f.Blocks, f.Known = len(path)*size, len(path), len(path)*size
	f.After = min(max(n, 0)/size, len(path))
	f.Runs = c.only(path[f.After:])
	if err = c.own(f.Runs[0].Blocks); err != nil {
		return Found{}, err
	}
	return f, nil
}

// insertPlain is Insert.
func (c *Cache) insertPlain(old []block.Block, p prefix.Path, tokens []uint32, held func(part, i int) *block.Block) (n int, _ []block.Block, err error) {
	size := c.tree.BlockSize()
	c.path, c.wrote = c.path[:0], c.wrote[:0]
	for i := 0; i*size < len(tokens); i++ {
		b := held(0, i)
		if b == nil || (i+1)*size > len(tokens) && c.has(*b) { // which is the beginning of what is there
			tokens = tokens[:i*size]
			break
		}
		c.path = append(c.path, *b)
	}
	if len(tokens) == 0 {
		return 0, old, nil
	}
	if n, old, err = c.tree.Insert(old, p, tokens, c.path); err != nil {
		return 0, old, err
	}
	for i, b := range c.path[:n] {
		if own := held(0, i); *own == b {
			c.wrote = append(c.wrote, b)
		} else { // others write it
			*own = b
		}
	}
	return n, old, nil
}
