package group

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// RestorePoints are the places of a prompt, in tokens from its beginning, where others may go on that share no more of it. What is
// read there, at the last border of entries before it, stays findable when the prompt's sequence goes on, like what is
// read at every Config.Every-th border.
//
// The places are those of Marconi (Pan et al., MLSys 2025), which keeps the states of linear attention where they are
// likely to be read again: at a prompt's end, and where two prompts part.
type RestorePoints struct {
	// Found is what the tree had of the prompt when it began: whoever left it may come back, so all of it stays.
	Found int
	// Branch is where the prompt left the paths of the tree, which parts may have had less of. What two prompts had in
	// common a third is likely to have, too.
	Branch int
	// End is the prompt without its last token, which is computed anew by a sequence that asks the same again.
	End int
}

// Drop takes a block away from its entry if the caller is its only owner and the retention does not want it, for its
// sequence, which began with a prompt with such restore points, goes on without it. i is its number.
func (c *Cache) Drop(part, i int, b block.Block, m RestorePoints) {
	if c != nil && part >= 0 && part < len(c.parts) {
		c.layout().drop(part, i, b, m)
	}
}

func (c rows) drop(part, i int, b block.Block, m RestorePoints) {
	p, size := &c.parts[part], max(c.Tree().BlockSize(), 1)
	if i*p.Block < m.Found || p.Reads(i, m.Branch-m.Branch%size) || p.Reads(i, m.End-m.End%size) || p.Keeps(i, c.every*p.Each) {
		return
	}
	if known, _ := c.Has(b); !known {
		return
	}
	if refs, err := c.blocks().Refs(b); err == nil && refs == 1 {
		c.detach(b)
	}
}

// Keeps reports whether the retention wants a state after a number of entries of a prompt with such restore points.
func (c *Cache) Keeps(entries int, m RestorePoints) bool {
	size := max(c.Tree().BlockSize(), 1)
	return entries == m.End/size || entries == m.Branch/size || c.every > 0 && entries%c.every == 0
}
