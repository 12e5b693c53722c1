package group

import (
	"time"

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

// plain is a cache whose entries are blocks.
type plain struct{ *Cache }

// Plain reports whether an entry is the block with it. Those of no cache are not.
func (c *Cache) Plain() bool {
	if c == nil {
		return false
	}
	_, is := c.how.(plain)
	return is
}

func (c plain) evict(n int, r prefix.Root) bool { return c.tree.Evict(n, r) }
func (c plain) evictAny(n int) bool             { return c.tree.EvictAny(n) }
func (c plain) forget(b block.Block) bool       { return c.tree.Forget(b) }

func (c plain) pin(r prefix.Root, q prefix.Query, d time.Duration) (*prefix.Lease, error) {
	return c.tree.Pin(r, q, d)
}

func (c plain) leased(visit func(block.Block))                { c.tree.Leased(visit) }
func (c plain) leasedEntries(func(block.Block))               {}
func (c plain) check() error                                  { return c.tree.Check() }
func (c plain) retain(b block.Block) error                    { return c.pages.Retain(b) } // an owner of a path owns its blocks
func (c plain) release(bs []block.Block) error                { return c.tree.Release(bs) }
func (c plain) drop(_, _ int, _ block.Block, _ RestorePoints) {}

func (c plain) hold(blocks []block.Block) ([]block.Block, error) {
	if len(blocks) == 0 {
		return nil, nil
	}
	return c.tree.Hold(nil, blocks[len(blocks)-1])
}

func (c plain) keep(path []block.Block, _ int) (entries, blocks []block.Block, err error) {
	blocks, err = c.tree.Hold(nil, path[len(path)-1])
	return nil, blocks, err
}

func (c plain) at(entry block.Block, part, i int) block.Block {
	if part != 0 || i != 0 {
		return block.Block{}
	}
	return entry
}

func (plain) pathOf(_, blocks []block.Block) []block.Block { return blocks }
func (c plain) with(int) int                               { return c.tree.Stats().Blocks }
func (c plain) has(b block.Block) (known, end bool)        { return c.tree.Has(b) }

// only is the run of the only part.
func (c plain) only(blocks []block.Block) []Run {
	c.runs[0] = Run{Blocks: blocks}
	return c.runs[:]
}

// take is Take: found is what Peek said, so that nothing is searched again unless the tree has changed since.
func (c plain) take(r prefix.Root, q prefix.Query, k prefix.RetentionHint, found prefix.Match) (f Found, err error) {
	c.path, f.Match, err = c.tree.Take(c.path[:0], r, q, k, found)
	f.Known, f.Runs = f.Tokens, c.only(c.path)
	if n := len(c.path); n > 0 {
		f.Last = c.path[n-1]
	}
	return f, err
}

// hand is Hand: a caller that has the first n tokens keeps the full blocks of these.
func (c plain) hand(path []block.Block, n int) (f Found, err error) {
	size := c.tree.BlockSize()
	f.Tokens, f.Blocks, f.Known = len(path)*size, len(path), len(path)*size
	f.After = min(max(n, 0)/size, len(path))
	f.Runs = c.only(path[f.After:])
	if err = c.own(f.Runs[0].Blocks); err != nil {
		return Found{}, err
	}
	return f, nil
}

func (c plain) insert(path, old []block.Block, p prefix.Path, tokens []uint32, held func(part, i int) *block.Block) (n int, _, _ []block.Block, err error) {
	size := c.tree.BlockSize()
	c.path, c.wrote = c.path[:0], c.wrote[:0]
	for i := 0; i*size < len(tokens); i++ {
		b := held(0, i)
		known := false
		if b != nil && (i+1)*size > len(tokens) {
			known, _ = c.tree.Has(*b)
		}
		if b == nil || known { // it is the beginning of what is there
			tokens = tokens[:i*size]
			break
		}
		c.path = append(c.path, *b)
	}
	if len(tokens) == 0 {
		return 0, path, old, nil
	}
	if n, old, err = c.tree.Insert(old, p, tokens, c.path); err != nil {
		return 0, path, old, err
	}
	for i, b := range c.path[:n] {
		if own := held(0, i); *own == b {
			c.wrote = append(c.wrote, b)
		} else { // others write it
			*own = b
		}
	}
	return n, path, old, nil
}
