package memory

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// Extend appends n blocks to table, each with one owner. Where shared is not 0, the table's last
// block is replaced by a copy of its first shared tokens if others own it, too. On error table is
// returned as it was: block.ErrOutOfBlocks says how many blocks were needed, the copy included,
// and any other error is a last block that its caller does not own.
//
// The copy is made under the lock: the first of two owners to write copies, the second finds
// itself alone, and never are both copies and the original held. A table with room for a block
// more than it gets is not moved.
func (m *Memory[E]) Extend(table []block.Block, n, shared int) ([]block.Block, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(table) - 1
	if shared > 0 {
		switch refs, err := m.alloc.Refs(table[last]); {
		case err != nil:
			return table, err
		case refs == 0:
			return table, block.ErrBlock{Op: "extend", Block: table[last], Why: block.ErrNotHeld}
		case refs == 1:
			shared = 0
		default:
			n++
		}
	}
	if err := m.provide(n); err != nil {
		return table, err
	}
	longer, err := m.alloc.AllocateN(table, n)
	if err != nil {
		return table, err
	}
	table = longer
	if m.onDemand {
		slabs := *m.slabs.Load()
		for _, b := range table[last+1:] {
			slabs[b.ID] = m.Room(m.tokens)
		}
	}
	if shared == 0 {
		return table, nil
	}
	old, fresh := table[last], table[len(table)-1]
	m.Rows(fresh, 0, shared).Copy(m.Rows(old, 0, shared))
	err = m.give(table[last : last+1])
	table[last] = fresh
	return table[:len(table)-1], err
}

// provide makes sure that a memory on demand has n blocks to hand out.
func (m *Memory[E]) provide(n int) error {
	short := n - m.alloc.Available()
	if !m.onDemand || short <= 0 {
		return nil
	}
	more := max(short, m.alloc.Total()/4) // what a list takes to grow is spread
	if err := m.alloc.Grow(more); err != nil {
		return err
	}
	slabs := append(*m.slabs.Load(), make([]Rows[E], more)...)
	m.slabs.Store(&slabs)
	return nil
}

// Retain adds an owner to each of bs, which the caller owns, or to none: block.ErrBlock.
func (m *Memory[E]) Retain(bs []block.Block) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alloc.RetainN(bs)
}

// Release takes an owner from each of bs, or from none: block.ErrBlock.
func (m *Memory[E]) Release(bs []block.Block) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.give(bs)
}

// give is Release under the lock.
func (m *Memory[E]) give(bs []block.Block) error {
	if err := m.alloc.ReleaseN(bs, 0); err != nil || !m.onDemand {
		return err
	}
	slabs := *m.slabs.Load()
	for _, b := range bs {
		if refs, err := m.alloc.Refs(b); err == nil && refs == 0 {
			slabs[b.ID] = Rows[E]{}
		}
	}
	return nil
}

// Grow allocates slabs, as large as the memory was made with, until there are at least so many
// blocks, or none: block.ErrRange. A memory on demand grows by itself.
func (m *Memory[E]) Grow(blocks int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	short := blocks - m.alloc.Total()
	if short <= 0 || m.onDemand {
		return nil
	}
	slab := int(m.slabBlocks)
	more := (short-1)/slab + 1
	if err := m.alloc.Grow(max(short, more*slab)); err != nil { // short, where the product overflows
		return err
	}
	for range more {
		m.addSlab()
	}
	return nil
}

// addSlab appends the memory of slabBlocks blocks to a longer list of slabs.
func (m *Memory[E]) addSlab() {
	var slabs []Rows[E]
	if old := m.slabs.Load(); old != nil {
		slabs = append(slabs, *old...)
	}
	slabs = append(slabs, m.Room(int(m.slabBlocks)*m.tokens))
	m.slabs.Store(&slabs)
}
