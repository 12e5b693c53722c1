package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// checkOwners counts every reference the pool knows of and compares with the allocator.
func (p *Pool[B]) checkOwners() error {
	owners := map[block.Block]int{}
	count := func(blocks []block.Block) {
		for _, b := range blocks {
			owners[b]++
		}
	}
	logical := 0
	for s := range p.seqs {
		count(s.blocks)
		logical += len(s.blocks)
		if want := ceilDiv(s.len, p.cfg.slots()); len(s.blocks) != want {
			return fmt.Errorf("kvcache: check: a sequence of %d tokens has %d blocks, not %d", s.len, len(s.blocks), want)
		}
	}
	if logical != p.logical {
		return fmt.Errorf("kvcache: check: sequences have %d blocks, counted %d", logical, p.logical)
	}
	for b := range p.batches {
		if b.state == stepPlanned {
			count(b.taken)
		}
	}
	for _, r := range p.retired {
		count(r.blocks)
	}
	count(p.leased(nil))
	for b, n := range owners {
		if refs, err := p.alloc.Refs(b); err != nil || refs != n {
			return fmt.Errorf("kvcache: check: block %d has %d owners, counted %d references (%v)", b.ID, n, refs, err)
		}
	}
	if len(owners) != p.alloc.Held() {
		return fmt.Errorf("kvcache: check: %d blocks have owners, %d are held", len(owners), p.alloc.Held())
	}
	return nil
}
