package store

import (
	"cmp"
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

func fault(format string, args ...any) error {
	return fmt.Errorf(format, args...)
}

// Books are what is known of the owners of a part's blocks, in each of its stores.
type Books []*residency.Books

// Check compares what is counted with what owners enters in the books of each part: what sequences and steps
// own and hold.
func (p *Parts[B]) Check(all func(yield func(*Runs[B]) bool), owners func(of []Books)) error {
	holders := map[*residency.Fence]int{}
	of := make([]Books, len(p.All))
	for i, st := range p.All {
		of[i] = make(Books, len(st.Stores))
	}
	p.residencies(func(part, i int, _ *Store[B]) { of[part][i] = &residency.Books{Holders: holders} })
	for i := range of {
		of[i][0] = cmp.Or(of[i][0], of[0][0]) // which parts have in common
	}
	logical := make([][MostStores]int, len(p.All))
	for s := range all {
		of[0][0].OwnPath(s.Path)
		s.ownArriving(of)
		for _, f := range s.waitFor {
			of[0][0].Hold(f)
		}
		s.Writers.Hold(of[0][0])
		for i := range s.In {
			b := &s.In[i]
			if err := b.check(of[i]); err != nil {
				return err
			}
			if s.Suspended == nil && b.Total() != s.Len() {
				return fault("a sequence of %d tokens has %d in part %d", s.Len(), b.Total(), i)
			}
			for j := range b.Segments {
				logical[i][j] += len(b.Segments[j].Blocks)
			}
		}
	}
	owners(of)
	for i, all := range p.All {
		for j, st := range all.Stores {
			if st.Logical != logical[i][j] {
				return fault("sequences have %d blocks of store %d of part %d, counted %d", logical[i][j], j, i, st.Logical)
			}
		}
	}
	var err error
	p.residencies(func(part, i int, st *Store[B]) { err = cmp.Or(err, st.Check(of[part][i])) })
	return cmp.Or(err, p.Fences.Check(holders))
}
