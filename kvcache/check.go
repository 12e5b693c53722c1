package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// checkOwners counts what sequences and steps have of blocks and fences.
func (p *Pool[B]) checkOwners() error {
	holders := map[*residency.Fence]int{}
	kept := residency.Books{Holders: holders}
	fresh := &kept
	if p.windowed() {
		fresh = &residency.Books{Holders: holders}
	}
	logical := [2]int{}
	for s := range p.seqs {
		kept.Own(s.kept.blocks)
		kept.Hold(s.fence)
		logical[0] += len(s.kept.blocks)
		if g, want := s.fresh(), ceilDiv(s.len, p.cfg.slots()); g.end() != want {
			return fmt.Errorf("kvcache: check: a sequence of %d tokens has blocks up to %d, not %d", s.len, g.end(), want)
		}
		if p.windowed() {
			fresh.Own(s.recent.blocks)
			logical[1] += len(s.recent.blocks)
			if have := len(s.kept.blocks); have < s.recent.gone || have > s.recent.end() {
				return fmt.Errorf("kvcache: check: of %d blocks of a sequence the first %d are quantized, and the first %d nowhere else", s.recent.end(), have, s.recent.gone)
			}
		}
	}
	for b := range p.batches {
		kept.Hold(b.fence)
		if b.state == stepPlanned {
			fresh.Own(b.taken)
			kept.Own(b.sealing.taken)
		}
	}
	if err := p.kept.check(&kept, logical[0]); err != nil {
		return err
	}
	if p.windowed() {
		if err := p.fresh.check(fresh, logical[1]); err != nil {
			return err
		}
	}
	return p.fences.Check(holders)
}

// check verifies a store against the books of those who have its blocks.
func (st *store[B]) check(books *residency.Books, logical int) error {
	if logical != st.logical {
		return fmt.Errorf("kvcache: check: sequences have %d blocks, counted %d", logical, st.logical)
	}
	return st.Check(books)
}
