package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// checkOwners counts what sequences and steps have of blocks, and of fences unless two pools have
// them in common.
func (p *Pool[B]) checkOwners(fences bool) error {
	books := residency.Books{Elsewhere: !fences}
	logical := 0
	for s := range p.seqs {
		books.Own(s.blocks)
		books.Hold(s.fence)
		logical += len(s.blocks)
		if want := ceilDiv(s.len, p.cfg.slots()); len(s.blocks) != want {
			return fmt.Errorf("kvcache: check: a sequence of %d tokens has %d blocks, not %d", s.len, len(s.blocks), want)
		}
	}
	if logical != p.logical {
		return fmt.Errorf("kvcache: check: sequences have %d blocks, counted %d", logical, p.logical)
	}
	for b := range p.batches {
		books.Hold(b.fence)
		if b.state == stepPlanned {
			books.Own(b.taken)
		}
	}
	return p.blocks.Check(books)
}
