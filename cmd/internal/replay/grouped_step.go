package replay

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// take gets the blocks for a step, or for as much of it as there is room for, and says how far that goes.
func (g *grouped) take(n, next int) (int, error) {
	each, states := 0, 0
	for part := range g.parts {
		if g.parts[part].Kind != group.State {
			each++
		} else if g.copies(part) {
			states++
		}
	}
	room := g.pages.Free() + g.cache.Evictable(g.root) - states
	if next = min(next, n+room/each); room < each {
		return n, nil
	}
	need := (next-n)*each + states
	if lack := need - g.pages.Free(); lack > 0 && !g.cache.Evict(lack, g.root) {
		return n, fmt.Errorf("replay: %w: %d blocks that can be evicted were not", prefix.ErrCorrupt, lack)
	}
	var err error
	if g.fresh, err = g.pages.AllocateN(g.fresh[:0], need); err != nil {
		return n, err
	}
	for part := range g.parts {
		l, more := &g.lists[part], next-n
		if g.parts[part].Kind == group.State {
			if !g.copies(part) {
				continue
			}
			if err = g.cache.Release(l.blocks); err != nil { // a copy goes on
				return n, err
			}
			l.blocks, more = l.blocks[:0], 1
		}
		g.uses.allocated(part, g.fresh[:more])
		l.blocks, g.fresh = append(l.blocks, g.fresh[:more]...), g.fresh[more:]
	}
	return next, nil
}

// copies reports whether the next step needs a block for a state: for the first tokens, and where others can find it.
func (g *grouped) copies(part int) bool {
	l := &g.lists[part]
	if len(l.blocks) == 0 {
		return true
	}
	found, _ := g.cache.Has(l.blocks[0])
	return found
}

// publish puts what a step computed into the tree.
func (g *grouped) publish(tokens []uint32, m group.RestorePoints, all int) (err error) {
	n := g.found
	where := prefix.Path{Root: g.root}
	if n > 0 {
		where.Parent = g.cache.PathOf(g.path, g.lists[0].blocks)[n-1]
	}
	var in int
	in, g.path, g.old, err = g.cache.Insert(g.path, g.old[:0], where, tokens, func(part, i int) *block.Block {
		if g.parts[part].Kind == group.State {
			return nil
		}
		l := &g.lists[part]
		return &l.blocks[n+i-l.gone]
	})
	if err != nil {
		return err
	}
	if g.found += in; in == len(tokens) && (g.found == all || g.cache.Keeps(g.found, m)) {
		for part := range g.parts {
			if g.parts[part].Kind == group.State {
				g.cache.Checkpoint(g.path[len(g.path)-1], part, g.lists[part].blocks[0])
			}
		}
	}
	return g.cache.Release(g.old)
}

// slide gives up what no later query reads.
func (g *grouped) slide(n int, m group.RestorePoints) error {
	for part := range g.parts {
		r, l := &g.parts[part].Rule, &g.lists[part]
		more := r.Gone(n) - l.gone
		if more <= 0 {
			continue
		}
		for i, b := range l.blocks[:more] {
			g.cache.Drop(part, l.gone+i, b, m)
		}
		if err := g.cache.Release(l.blocks[:more]); err != nil {
			return err
		}
		l.gone, l.blocks = l.gone+more, append(l.blocks[:0], l.blocks[more:]...)
	}
	return nil
}
