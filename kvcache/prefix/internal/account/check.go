package account

import "fmt"

// Sum is what a tree has of a tenant.
type Sum struct{ Blocks, Cached, Offloaded int }

// Check returns the first contradiction between the book and what the tree has, by tenant. cached reports whether a block has
// no owner.
func (b *Book) Check(tree map[*Tenant]Sum, cached func(id uint32) bool) error {
	var all Sum
	groups := map[*Group]Sum{b.common: {}}
	for _, tn := range b.tenants {
		have := tree[tn]
		if have != tn.counts.sum() {
			return fmt.Errorf("a salt has %+v blocks, counted %+v", have, tn.counts.sum())
		}
		all, groups[tn.group] = all.plus(have), groups[tn.group].plus(have)
	}
	if all != b.counts.sum() {
		return fmt.Errorf("all salts have %+v blocks, counted %+v", all, b.counts.sum())
	}
	spare := 0
	for g, have := range groups {
		if have.Blocks != g.blocks || have.Cached != g.cached {
			return fmt.Errorf("a share has %d cached of %d blocks; counted %d of %d", have.Cached, have.Blocks, g.cached, g.blocks)
		}
		if err := g.queue.Check(have.Cached, cached); err != nil {
			return err
		}
		if b.able.Has(g) != (g.spare > 0) || b.floored.Has(g) != (g.spare == 0 && g.cached > 0) {
			return fmt.Errorf("a share with %d blocks to spare has place %d", g.spare, g.place)
		}
		spare += g.spare
	}
	if spare != b.spare {
		return fmt.Errorf("shares have %d blocks to spare, counted %d", spare, b.spare)
	}
	return nil
}

func (c *Counts) sum() Sum { return Sum{c.Blocks, c.Cached, c.Offloaded} }

func (s Sum) plus(o Sum) Sum {
	return Sum{s.Blocks + o.Blocks, s.Cached + o.Cached, s.Offloaded + o.Offloaded}
}
