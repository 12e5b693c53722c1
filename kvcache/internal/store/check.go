package store

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

func fault(format string, args ...any) error {
	return fmt.Errorf(format, args...)
}

// Books are what is known of the owners of a part's blocks, in the kept store and the fresh one, which are the same where
// the stores are.
type Books struct{ Kept, Fresh *residency.Books }

// Check compares what is counted with what owners says, who enters in the books of each part what sequences and steps
// own and hold.
func (p *Parts[B]) Check(bodies func(yield func(*Bodies[B]) bool), owners func(of []Books)) error {
	holders := map[*residency.Fence]int{}
	of := make([]Books, len(p.All))
	for i, st := range p.All {
		of[i].Kept = &residency.Books{Holders: holders}
		if i > 0 && !p.apart {
			of[i].Kept = of[0].Kept
		}
		if of[i].Fresh = of[i].Kept; st.Windowed() {
			of[i].Fresh = &residency.Books{Holders: holders}
		}
	}
	logical := make([][2]int, len(p.All))
	for s := range bodies {
		of[0].Kept.OwnPath(s.Path)
		s.ownArriving(of)
		for _, f := range s.Behind {
			of[0].Kept.Hold(f)
		}
		s.Past.Hold(of[0].Kept)
		for i := range s.Parts {
			b := &s.Parts[i]
			if err := b.Check(of[i].Kept, of[i].Fresh); err != nil {
				return err
			}
			if s.Away == nil && b.Total() != s.Len() {
				return fault("a sequence of %d tokens has %d in part %d", s.Len(), b.Total(), i)
			}
			logical[i][0], logical[i][1] = logical[i][0]+len(b.Kept.Blocks), logical[i][1]+len(b.Recent.Blocks)
		}
	}
	owners(of)
	for i, st := range p.All {
		if st.Kept.Logical != logical[i][0] || st.Windowed() && st.Fresh.Logical != logical[i][1] {
			return fault("sequences have %v blocks of part %d, counted %d and %d", logical[i], i, st.Kept.Logical, st.Fresh.Logical)
		}
		if i == 0 || p.apart {
			if err := st.Kept.Check(of[i].Kept); err != nil {
				return err
			}
		}
		if st.Windowed() {
			if err := st.Fresh.Check(of[i].Fresh); err != nil {
				return err
			}
		}
	}
	return p.Fences.Check(holders)
}
