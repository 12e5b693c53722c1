package policy

import "fmt"

func (q *lru) Check(blocks int, cached func(id uint32) bool) error {
	size := 0
	for i := range q.levels {
		l := &q.levels[i]
		all, ok := l.All(q.inLevel)
		if !ok || l.Len() == 0 || i > 0 && q.levels[i-1].rank >= l.rank {
			return fmt.Errorf("queue %d with %d blocks is broken or out of order", l.rank, l.Len())
		}
		for _, id := range all {
			if e := &q.entries[id]; e.rank != l.rank || !e.cached || !cached(id) {
				return fmt.Errorf("block %d is in queue %d", id, l.rank)
			}
		}
		size += l.Len()
	}
	if size != blocks {
		return fmt.Errorf("%d of %d blocks in queues", size, blocks)
	}
	return nil
}

// Check compares the cells with the levels, too.
func (p *adaptive) Check(blocks int, cached func(id uint32) bool) error {
	size, ghosts := 0, 0
	for c := range p.residents {
		all, ok := p.residents[c].All(p.inCell)
		for _, id := range all {
			ok = ok && int(p.entries[id].cell) == c && p.entries[id].cached
		}
		if !ok {
			return fmt.Errorf("cell %d is broken, or has blocks of others", c)
		}
		size += len(all)
		ghosts += p.ghosts.cells[c].Len()
	}
	if size != blocks || ghosts != p.ghosts.live {
		return fmt.Errorf("%d of %d blocks in cells; %d ghosts, counted %d", size, blocks, ghosts, p.ghosts.live)
	}
	return p.lru.Check(blocks, cached)
}
