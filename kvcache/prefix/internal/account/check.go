package account

import "fmt"

// Content is what a tree has of a tenant, by Blocks, Cached and Offloaded.
type Content [Offloaded + 1]int

func (c *Content) add(o Content) {
	for i, n := range o {
		c[i] += n
	}
}

// Check returns the first contradiction between the book and what the tree has. cached reports whether a block has no owner.
func (b *Book) Check(tree map[*Tenant]Content, cached func(id uint32) bool) error {
	var all Content
	groups := map[*Group]*Content{b.common: {}}
	for _, tn := range b.tenants {
		have := tree[tn]
		if have != Content(tn.counts[:]) {
			return fmt.Errorf("a salt has %v blocks, counted %v", have, tn.counts)
		}
		if groups[tn.group] == nil {
			groups[tn.group] = &Content{}
		}
		groups[tn.group].add(have)
		all.add(have)
	}
	if all != Content(b.counts[:]) {
		return fmt.Errorf("all salts have %v blocks, counted %v", all, b.counts)
	}
	spare := 0
	for g, have := range groups {
		if have[Blocks] != g.blocks || have[Cached] != g.cached {
			return fmt.Errorf("a share has %v blocks; counted %d, %d of them cached", *have, g.blocks, g.cached)
		}
		if err := g.queue.Check(have[Cached], cached); err != nil {
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
