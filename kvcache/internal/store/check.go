package store

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

func fault(format string, args ...any) error {
	return fmt.Errorf(format, args...)
}

// Check compares what is counted with what owners says, who enters in the books of each store, which are
// the same where the stores are, what sequences and steps own and hold.
func (p *Stores[B]) Check(bodies func(yield func(*Body[B]) bool), owners func(kept, fresh *residency.Books)) error {
	holders := map[*residency.Fence]int{}
	kept := residency.Books{Holders: holders}
	fresh := &kept
	if p.Windowed() {
		fresh = &residency.Books{Holders: holders}
	}
	var ofKept, ofFresh int
	for s := range bodies {
		if err := s.Check(&kept, fresh); err != nil {
			return err
		}
		ofKept, ofFresh = ofKept+len(s.Kept.Blocks), ofFresh+len(s.Recent.Blocks)
	}
	owners(&kept, fresh)
	if err := p.Kept.check(&kept, ofKept); err != nil {
		return err
	}
	if p.Windowed() {
		if err := p.Fresh.check(fresh, ofFresh); err != nil {
			return err
		}
	}
	return p.Fences.Check(holders)
}

// check verifies a store against the books of those who have its blocks.
func (st *Store[B]) check(books *residency.Books, logical int) error {
	if logical != st.Logical {
		return fault("sequences have %d blocks, counted %d", logical, st.Logical)
	}
	return st.Check(books)
}
