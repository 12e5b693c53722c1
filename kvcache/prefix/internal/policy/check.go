package policy

import "fmt"

// Check returns the first contradiction in a queue. blocks is how many it has, and cached reports whether a block has no owner.
func (q *Queue) Check(blocks int, cached func(id uint32) bool) error {
	size := 0
	for i := range q.levels {
		l := &q.levels[i]
		if l.Len() == 0 || i > 0 && q.levels[i-1].rank >= l.rank {
			return fmt.Errorf("queue %d with %d blocks is out of order", l.rank, l.Len())
		}
		walked := 0
		for id, prev := l.Front(), None; id != None; id, prev = q.blocks.entries[id].level.Next, id {
			e := &q.blocks.entries[id]
			if e.level.Prev != prev || e.rank != l.rank || !e.cached || !cached(id) || walked == l.Len() {
				return fmt.Errorf("queue %d is broken at block %d", l.rank, id)
			}
			walked++
		}
		if walked != l.Len() {
			return fmt.Errorf("queue %d has %d blocks, counted %d", l.rank, walked, l.Len())
		}
		size += walked
	}
	if size != blocks {
		return fmt.Errorf("%d of %d blocks in queues", size, blocks)
	}
	if a, ok := q.order.(*adaptive); ok {
		return a.check(size)
	}
	return nil
}

// check compares the cells with the blocks that wait in the share.
func (p *adaptive) check(waiting int) error {
	ghosts := 0
	for c := range p.residents {
		walked := 0
		for id := p.residents[c].Front(); id != None && walked <= waiting; id = p.blocks.cells(id).Next {
			if e := &p.blocks.entries[id]; int(e.cell) != c || !e.cached {
				return fmt.Errorf("block %d is not in cell %d", id, c)
			}
			walked++
		}
		if walked != p.residents[c].Len() {
			return fmt.Errorf("cell %d has %d blocks, counted %d", c, walked, p.residents[c].Len())
		}
		waiting -= walked
		ghosts += p.ghosts.cells[c].Len()
	}
	if waiting != 0 || ghosts != p.ghosts.live {
		return fmt.Errorf("%d blocks in no cell; %d ghosts, counted %d", waiting, ghosts, p.ghosts.live)
	}
	return nil
}
