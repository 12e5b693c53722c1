package account

import "fmt"

// Check returns the first contradiction between the book and the blocks that the tree has of each group, all and cached ones. cached reports whether a block has no owner.
func (b *Book) Check(tree map[*Group][2]int, cached func(id uint32) bool) error {
	spare, floors := 0, 0
	for g, have := range tree {
		if have != [2]int{g.blocks, g.cached} {
			return fmt.Errorf("a share has %d blocks, all and cached ones; counted %d and %d", have, g.blocks, g.cached)
		}
		if err := g.queue.Check(g.cached, cached); err != nil {
			return err
		}
		if b.able.Has(g) != (g.spare > 0) || b.floored.Has(g) != (g.spare == 0 && g.cached > 0) {
			return fmt.Errorf("a share with %d blocks to spare has place %d", g.spare, g.place)
		}
		spare, floors = spare+g.spare, floors+g.floor
	}
	if spare != b.spare || floors != b.floors {
		return fmt.Errorf("shares have %d blocks to spare and floors of %d, counted %d and %d", spare, floors, b.spare, b.floors)
	}
	return nil
}
