package group

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Needs reports whether a sequence that goes on after a number of entries of a path, whose tokens are size each, needs block i of them of
// the part. Of a State block i is that at the end of entry i.
func (p *Part) Needs(i, entries, size int) bool {
	switch p.keeps() {
	case kind.State:
		return i == entries-1
	case kind.Nothing:
		return false
	}
	n := entries * size
	if i >= p.blocks(n) {
		return false
	}
	sinks, first := p.reads(max(n-p.Back, 0))
	return i >= first || i < sinks
}

// Fits is n if all blocks are there that a sequence needs which goes on after n tokens of a path, whose entries have size tokens, and
// otherwise the most, in whole entries, for which none is needed that was found missing: fewer may be there for those. It asks for one block
// after another until one is not there; of a part that keeps everything for none: those are where their entries are. there is nil: all are.
func (p *Part) Fits(n, size int, there func(block int) bool) int {
	if there == nil {
		return n
	}
	switch p.keeps() {
	case kind.Last:
		sinks, first := p.reads(max(n-p.Back, 0))
		for i := p.blocks(n) - 1; i >= 0; i-- {
			if i < first {
				if i = min(i, sinks-1); i < 0 {
					break
				}
			}
			if !there(i) {
				return i / max(p.Each, 1) * size
			}
		}
	case kind.State:
		if last := n/max(size, 1) - 1; last >= 0 && !there(last) {
			return last * size
		}
	}
	return n
}

// Parts are those of the configuration.
func (c *Cache) Parts() []Part { return c.parts }

// Keep makes the caller an owner of a path of entries, and of those blocks with them that a caller needs which goes on after n of its
// entries, and of the prompt's that follow it. It returns the entries that it owns besides blocks, and the blocks. With
// block.ErrOutOfBlocks, where some are promised to others, it owns none.
func (c *Cache) Keep(path []block.Block, n int) (entries, blocks []block.Block, err error) {
	if len(path) == 0 {
		return nil, nil, nil
	}
	return c.layout().keep(path, n)
}

func (c rows) keep(path []block.Block, n int) (entries, blocks []block.Block, err error) {
	if entries, err = c.Tree().Hold(nil, path[len(path)-1]); err != nil {
		return nil, nil, err
	}
	for part := range c.parts {
		p := &c.parts[part]
		for e, entry := range path[:min(max(n, 0), len(path))] {
			for j, b := range c.row(entry, part) {
				if b != (block.Block{}) && p.Needs(e*p.Each+j, n, c.Tree().BlockSize()) {
					blocks = append(blocks, b)
				}
			}
		}
	}
	if err = c.own(blocks); err != nil {
		return nil, nil, errors.Join(err, c.Tree().Release(entries))
	}
	return entries, blocks, nil
}

// Hold makes the caller an owner of blocks that are with entries and may have no owner, those of a path in its order: of all or, with
// block.ErrOutOfBlocks, of none. It returns what the caller owns then: where entries are blocks, those before them, too. It is
// for a copy: an entry may leave the tree meanwhile, and its blocks stay as they are.
func (c *Cache) Hold(blocks []block.Block) ([]block.Block, error) { return c.layout().hold(blocks) }

func (c rows) hold(blocks []block.Block) ([]block.Block, error) { return blocks, c.own(blocks) }

// Hand makes the caller an owner of the blocks that every part needs after the longest beginning of a path of full entries for
// which all of it is there: of nothing, where claims leave too few blocks to take, as in Take. The caller owns the path, and has the
// first n tokens of it: see Found.After. Nothing counts as a lookup.
func (c *Cache) Hand(path []block.Block, n int) (Found, error) { return c.layout().hand(path, n) }

func (c rows) hand(path []block.Block, _ int) (f Found, err error) {
	size := max(c.Tree().BlockSize(), 1)
	n := c.longest(path, prefix.Match{Tokens: len(path) * size})
	f = Found{Match: prefix.Match{Tokens: n, Blocks: n / size}, Known: len(path) * size, Path: path[:n/size], Runs: make([]Run, len(c.parts))}
	if n == 0 {
		return f, nil
	}
	for part := range f.Runs {
		f.Runs[part] = c.run(part, path, n)
		if err = c.own(f.Runs[part].Blocks); err != nil {
			for _, r := range f.Runs[:part] {
				err = errors.Join(err, c.Release(r.Blocks))
			}
			if errors.Is(err, block.ErrOutOfBlocks{}) {
				err = nil
			}
			return Found{}, err
		}
	}
	return f, nil
}
