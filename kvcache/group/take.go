package group

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Run is the blocks that a part has of a sequence: those of its sinks, and those after the Gone ones.
type Run struct {
	Gone   int
	Blocks []block.Block
}

// Found is the beginning of a prompt that its taker now owns.
type Found struct {
	prefix.Match
	Known int           // tokens that the tree has entries for: Tokens, or more
	Path  []block.Block // entries, besides blocks
	Runs  []Run         // of each part; of a State one the checkpoint. Valid until the next call
	// After is how many entries the taker keeps as it has them: the runs are of those after them.
	After int
	// Last is the entry that was written after all others; zero: any may have been.
	Last block.Block
}

// Peek is Match without the lock, where the tree alone says it: all parts are Full. Else it says nothing, and ok is false.
func (c *Cache) Peek(r prefix.Root, q prefix.Query) (m prefix.Match, ok bool) {
	if c.full < c.width {
		return prefix.Match{}, false
	}
	return c.Tree().Match(r, q), true
}

// Match is what every part has of a query: it is a hit up to where full parts have everything, windows and chunks
// what the next tokens see, and states a checkpoint. missing is the tokens of the tree that are after that.
func (c *Cache) Match(r prefix.Root, q prefix.Query) (m prefix.Match, missing int) {
	if m, ok := c.Peek(r, q); ok {
		return m, 0
	}
	c.path, m = c.Tree().Lookup(c.path[:0], r, q)
	n := c.longest(c.path, m)
	missing = m.Tokens - n
	m = c.Tree().First(m, n)
	return m, missing
}

// longest is the tokens of a match after which every part can go on.
func (c *Cache) longest(path []block.Block, m prefix.Match) int {
	for n := m.Tokens; ; {
		fits := n
		for part := range c.parts {
			fits = c.fits(part, path, fits)
		}
		if fits == n {
			return n
		}
		n = fits
	}
}

// fits is the greatest length, at most n, after which a part has what is read.
func (c *Cache) fits(part int, path []block.Block, n int) int {
	p, tokens := &c.parts[part], c.Tree().BlockSize()
	there := func(i int) bool { return c.in(path, part, i) != block.Block{} }
	if part := n % tokens; part != 0 && p.keeps() == kind.State {
		if e := path[n/tokens]; c.short[e.ID] == part && there(n/tokens) {
			return n
		}
		n -= part
	}
	for n > 0 {
		fits := p.Fits(n, tokens, there)
		if fits == n {
			break
		}
		n = fits
	}
	return n
}

// Take makes the caller an owner of what Match finds: of the entries, and of the blocks that it needs with them. found is what
// Peek said of the same query. Where claims leave too few blocks to take, nothing is found, or less where entries are blocks.
func (c *Cache) Take(r prefix.Root, q prefix.Query, k prefix.RetentionHint, found prefix.Match) (Found, error) {
	return c.layout().take(r, q, k, found)
}

func (c rows) take(r prefix.Root, q prefix.Query, k prefix.RetentionHint, _ prefix.Match) (Found, error) {
	path, m := c.Tree().Lookup(c.path[:0], r, q)
	c.path = path
	n := c.longest(path, m)
	known := m.Tokens
	path, m, err := c.Tree().TakeFirst(nil, r, q, k, m, n)
	f := Found{Match: m, Known: known, Path: path, Runs: make([]Run, len(c.parts))}
	if err != nil || m.Tokens == 0 {
		return f, err
	}
	nothing := Found{Match: c.Tree().First(m, 0), Known: known, Runs: make([]Run, len(c.parts))}
	if m.Tokens < n { // the rest has had its time since: without it parts may lack what is read
		return nothing, c.Tree().Release(path)
	}
	for part := range c.parts {
		f.Runs[part] = c.run(part, path, m.Tokens)
	}
	for part := range f.Runs {
		if err = c.own(f.Runs[part].Blocks); err == nil {
			continue
		}
		for done := range part {
			err = errors.Join(err, c.Release(f.Runs[done].Blocks))
		}
		if errors.Is(err, block.ErrOutOfBlocks{}) {
			err = nil
		}
		return nothing, errors.Join(err, c.Tree().Release(path))
	}
	return f, nil
}

// run is the blocks of a part that a sequence with n tokens of a path needs.
func (c *Cache) run(part int, path []block.Block, n int) Run {
	p := &c.parts[part]
	at := func(i int) block.Block { return c.in(path, part, i) }
	switch p.keeps() {
	case kind.State:
		return Run{Blocks: []block.Block{at((n - 1) / c.Tree().BlockSize())}}
	case kind.Nothing:
		return Run{}
	}
	run := Run{Gone: p.Gone(n)}
	for i := range p.blocks(n) {
		if i < p.SinkBlocks() || i >= p.SinkBlocks()+run.Gone {
			run.Blocks = append(run.Blocks, at(i))
		}
	}
	return run
}

// Fits is the greatest length, at most n tokens of a path, after which a part can go on with what is there.
func (c *Cache) Fits(part int, path []block.Block, n int) int {
	if c == nil || part < 0 || part >= len(c.parts) {
		return 0
	}
	return c.fits(part, path, c.within(path, n))
}

// within limits a number of tokens to those that the entries of a path have.
func (c *Cache) within(path []block.Block, n int) int {
	tokens := 0
	for _, e := range path {
		tokens += c.tokens(e)
	}
	return min(max(n, 0), tokens)
}

// Own makes the caller an owner of the blocks that a part needs after n tokens of a path, which Fits says are there.
func (c *Cache) Own(part int, path []block.Block, n int) (Run, error) {
	if n = c.within(path, n); part < 0 || part >= len(c.parts) || n == 0 {
		return Run{}, nil
	}
	run := c.run(part, path, n)
	return run, c.own(run.Blocks)
}

// own makes the caller one more owner of blocks that are with entries: of all or, with an error, of none.
func (c *Cache) own(bs []block.Block) error {
	for i, b := range bs {
		if err := c.layout().retain(b); err != nil {
			return errors.Join(err, c.Release(bs[:i]))
		}
	}
	return nil
}

func (c rows) retain(b block.Block) error {
	refs, err := c.blocks().Refs(b)
	if err != nil {
		return err
	}
	if refs > 0 {
		return c.blocks().Retain(b)
	}
	if err := c.blocks().Take(b); err != nil {
		return err
	}
	c.old.remove(c.places, b.ID)
	return nil
}

// Release takes an owner from each of a part's blocks, given in their order. Those that are with entries and have no
// other owner are cached, the others free. Either all are released or, with an error, none.
func (c *Cache) Release(bs []block.Block) error { return c.layout().release(bs) }

func (c rows) release(bs []block.Block) error {
	if err := c.blocks().RetainN(bs); err != nil { // each can be given up, so it can twice
		return err
	}
	for _, again := range [...]bool{false, true} {
		for i := len(bs) - 1; i >= 0; i-- { // later ones are needed last
			b := bs[i]
			at := c.places[b.ID].at
			if err := c.blocks().Release(b, at != 0); err != nil {
				return err
			}
			if refs, err := c.blocks().Refs(b); again && at != 0 && err == nil && refs == 0 && c.alone(at) {
				c.old.push(c.places, b.ID)
			}
		}
	}
	return nil
}
