package store

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Reservation is a sequence that is to be able to grow to a number of tokens.
type Reservation[B backend.Buffer] struct {
	Runs   *Runs[B]
	Tokens int
}

// reserving is the claims on the blocks of one allocator, and what they were.
type reserving struct {
	of      *residency.Blocks
	claims  []block.Reservation
	before  []int
	writing []block.Block // blocks that are written next, and may be in the prefix tree
}

// Reserve sets aside what the sequences need besides the blocks they have, in all parts or in none.
// block.ErrOutOfBlocks; it waits for blocks that the device still uses before.
func (p *Parts[B]) Reserve(rs []Reservation[B]) error {
	unpublished, err := p.reserve(rs)
	if unpublished { // and fewer are needed now
		_, err = p.reserve(rs)
	}
	return err
}

// reserve is Reserve, with which it is worth trying again where blocks that are to be written left the prefix tree.
func (p *Parts[B]) reserve(rs []Reservation[B]) (unpublished bool, err error) {
	var all []reserving
	add := func(of *residency.Blocks, c *block.Claim, blocks int, writing block.Block) {
		i := slices.IndexFunc(all, func(r reserving) bool { return r.of == of })
		if i < 0 {
			i, all = len(all), append(all, reserving{of: of})
		}
		r := &all[i]
		r.claims, r.before = append(r.claims, block.Reservation{Claim: c, Blocks: max(blocks, 0)}), append(r.before, c.Blocks())
		if writing != (block.Block{}) {
			r.writing = append(r.writing, writing)
		}
	}
	for _, r := range rs {
		for i := range r.Runs.In {
			if err := r.Runs.In[i].reserve(r.Tokens, add); err != nil {
				return false, err
			}
		}
	}
	for i := range all {
		if err := all[i].of.Reserve(all[i].claims); err != nil {
			for _, done := range all[:i] {
				done.restore()
			}
			return all[i].of.Unpublish(err, all[i].writing), err
		}
	}
	for _, r := range rs {
		for i := range r.Runs.In {
			b := &r.Runs.In[i]
			for j := range b.Segments {
				g := &b.Segments[j]
				g.reserved = g.reserved || j > 0 || b.Part.Slides()
			}
		}
	}
	return false, nil
}

// restore makes the claims what they were. There is room for what was promised.
func (r *reserving) restore() {
	for i, c := range r.claims {
		r.of.Cancel(c.Claim)
		_ = r.of.Restore(c.Claim, r.before[i])
	}
}

// reserve says what a sequence of that many tokens needs besides the blocks that it has.
func (s *Run[B]) reserve(tokens int, add func(of *residency.Blocks, c *block.Claim, blocks int, writing block.Block)) error {
	p := s.Part
	shared, err := s.TailShared()
	if err != nil {
		return err
	}
	need, writing := s.growth(tokens), block.Block{}
	if tokens > s.Total() {
		if writing = s.Tail(); shared {
			need++
		}
	}
	for i, st := range p.Sealed() {
		sealed := p.Config.Edge(tokens-s.Gone*p.Config.BlockTokens()-1) - s.Full()
		if p.Slides() { // what is sealed later comes when as much has gone
			sealed = min(sealed, p.Config.BlocksOf(p.MostTokens(1))-s.Full())
		}
		add(st.Blocks, &s.Segments[i].Claim, sealed, block.Block{})
	}
	add(p.Written.Blocks, &s.Written.Claim, need, writing)
	return nil
}

// growth is the blocks to write to that a sequence needs to have that many tokens, however many more than it can hold at a time.
func (s *Run[B]) growth(tokens int) int {
	p := s.Part
	return min(p.BlocksOf(min(tokens, p.MostTokens(1))), p.most) - len(s.Written.Blocks)
}

// got uses up what was set aside for blocks that the sequence was given, where it had n before.
func (s *Run[B]) got(had int) { s.Part.content.got(s, had) }
