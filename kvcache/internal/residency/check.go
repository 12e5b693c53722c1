package residency

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Stats are the numbers of the blocks at one moment. Free + Cached + Held is all of them.
type Stats struct {
	Blocks, Free, Cached, Held, Reserved, Peak int
	Retired                                    int // references; those that come back to a claim count as Reserved, too
}

// Stats returns the numbers.
func (r *Blocks) Stats() Stats {
	a := r.alloc
	return Stats{Blocks: a.Total(), Free: a.Free(), Cached: a.Cached(), Held: a.Held(), Reserved: a.Reserved() + r.due(nil), Peak: a.Peak(), Retired: r.retiredRefs()}
}

// Total is how many blocks there are. It needs no guard.
func (r *Blocks) Total() int { return r.alloc.Total() }

// Books are what sequences, steps and batches have of the blocks of a store, and of the pool's fences.
type Books struct {
	owners  map[block.Block]int // references to blocks
	entries map[block.Block]int // and to entries of the tree, where those are not blocks
	Holders map[*Fence]int
}

// Own notes an owner of each of blocks.
func (b *Books) Own(blocks []block.Block) {
	if b.owners == nil {
		b.owners = map[block.Block]int{}
	}
	for _, owned := range blocks {
		b.owners[owned]++
	}
}

// OwnPath notes an owner of each of entries of the tree that are not blocks.
func (b *Books) OwnPath(path []block.Block) {
	if b.entries == nil {
		b.entries = map[block.Block]int{}
	}
	for _, e := range path {
		b.entries[e]++
	}
}

// Hold notes a holder of a fence.
func (b *Books) Hold(f *Fence) {
	if b.Holders == nil {
		b.Holders = map[*Fence]int{}
	}
	b.Holders[f]++
}

// Check verifies that every block is free, cached or held, that it has the owners that are known,
// and that the writer of a block is a fence that will be asked for. It walks everything, and adds
// to the books what waits for the device and what leases own.
func (r *Blocks) Check(b *Books) error {
	if err := r.alloc.Check(); err != nil {
		return err
	}
	for _, w := range r.retired {
		if w.path {
			b.OwnPath(w.blocks)
		} else {
			b.Own(w.blocks)
		}
		b.Hold(w.fence)
	}
	if r.cache != nil {
		if err := r.cache.Check(); err != nil {
			return err
		}
		r.cache.Leased(func(leased block.Block) { b.Own([]block.Block{leased}) })
		r.cache.LeasedEntries(func(leased block.Block) { b.OwnPath([]block.Block{leased}) })
		if err := owned(r.cache.Entries(), b.entries); err != nil {
			return fmt.Errorf("entries: %w", err)
		}
	}
	if err := owned(r.alloc, b.owners); err != nil {
		return err
	}
	return r.checkWriters(b)
}

// owned verifies that blocks have the owners that are known.
func owned(alloc *block.BlockAllocator, owners map[block.Block]int) error {
	for owned, n := range owners {
		if refs, err := alloc.Refs(owned); err != nil || refs != n {
			return fmt.Errorf("block %d has %d owners, counted %d references (%v)", owned.ID, n, refs, err)
		}
	}
	if len(owners) != alloc.Held() {
		return fmt.Errorf("%d blocks have owners, %d are held", len(owners), alloc.Held())
	}
	return nil
}

// checkWriters verifies who writes the blocks of the tree.
func (r *Blocks) checkWriters(b *Books) error {
	type writer struct {
		id    uint32
		fence *Fence
	}
	asked, last := map[writer]bool{}, map[block.Block]*Fence{}
	for _, w := range r.publications {
		b.Hold(w.fence)
		asked[writer{w.block.ID, w.fence}] = true
		last[w.block] = w.fence
	}
	for written, f := range last {
		if known, _ := r.tree.Has(written); known && r.writers[written.ID] != f {
			return fmt.Errorf("who reads block %d does not wait for the step that writes it", written.ID)
		}
	}
	for id, f := range r.writers {
		if f != nil && !asked[writer{uint32(id), f}] {
			return fmt.Errorf("block %d waits for a fence that is not its publication's", id)
		}
	}
	return nil
}

// Check verifies that a fence is idle exactly while nobody holds it. The holders are those in the
// books of all stores.
func (fs *Fences) Check(holders map[*Fence]int) error {
	idle := map[*Fence]int{}
	for _, f := range fs.idle {
		idle[f]++
	}
	awaited := slices.Concat(fs.waits, []*Fence{fs.awaited})
	for _, f := range fs.all {
		n := holders[f]
		for _, awaited := range awaited {
			if awaited == f {
				n++
			}
		}
		if f.refs != n || idle[f] != 0 && n != 0 || idle[f] > 1 || n == 0 && idle[f] == 0 {
			return fmt.Errorf("a fence counts %d holders and has %d, and is idle %d times", f.refs, n, idle[f])
		}
	}
	return nil
}
