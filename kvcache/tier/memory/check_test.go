package memory

import "fmt"

// check checks the books of a tier, if nobody calls it now.
func (t *Tier) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls > 0 {
		return nil // Close in the middle of calls
	}
	var blocks, bytes int64
	kids, leaves := map[[32]byte]int{}, 0
	for key, e := range t.books.index {
		if e.key != key || e.gone || !e.ready || e.copies != 0 || e.at.slab == nil || e.at.slab.owners[e.at.i] != e {
			return fmt.Errorf("entry %v", e)
		}
		blocks++
		bytes += int64(e.size)
		if e.parent != ([32]byte{}) {
			kids[e.parent]++
		}
	}
	for key, n := range kids {
		if t.books.kids[key] != n {
			return fmt.Errorf("%d children, %d counted", n, t.books.kids[key])
		}
	}
	for _, e := range t.books.index {
		if leaf := kids[e.key] == 0; leaf != (e.leaf >= 0) || leaf && t.books.leaves[e.leaf] != e {
			return fmt.Errorf("leaf %v: %v", leaf, e)
		} else if leaf {
			leaves++
		}
	}
	var taken, used, free int64
	for _, c := range t.store.classes {
		for _, s := range c.slabs {
			taken += int64(len(s.mem))
			n := 0
			for _, o := range s.owners {
				if o != nil {
					n++
				}
			}
			if n != s.used {
				return fmt.Errorf("%d slots used, %d counted", n, s.used)
			}
			used += int64(n)
			free += int64(len(s.owners) - n)
		}
		free -= int64(len(c.free))
	}
	if len(t.books.kids) != len(kids) || leaves != len(t.books.leaves) || taken != t.store.taken || taken > t.store.budget ||
		used != blocks || free != 0 || blocks != t.stats.Blocks || bytes != t.stats.Bytes {
		return fmt.Errorf("%d blocks of %d bytes, %d leaves, %d slots used, %d bytes taken, %d slots free in excess: %+v", blocks, bytes, leaves, used, taken, free, t.stats)
	}
	return nil
}
