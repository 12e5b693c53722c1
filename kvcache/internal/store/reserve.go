package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Reservation is a sequence that is to be able to grow to so many tokens.
type Reservation[B backend.Buffer] struct {
	Body   *Body[B]
	Tokens int
}

// Reserve sets aside what the sequences need besides the blocks they have, in all stores or in none.
// block.ErrOutOfBlocks; it waits for blocks that the device still uses before.
func (p *Stores[B]) Reserve(rs []Reservation[B]) error {
	fresh := make([]block.Reservation, len(rs))
	for i, r := range rs {
		need := r.Body.growth(r.Tokens)
		shared, err := r.Body.TailShared()
		if err != nil {
			return err
		}
		if shared && r.Tokens > r.Body.Len {
			need++
		}
		fresh[i] = block.Reservation{Claim: &r.Body.Fresh().Claim, Blocks: max(need, 0)}
	}
	if !p.Windowed() {
		return p.Fresh.Reserve(fresh)
	}
	return p.reserveBoth(rs, fresh)
}

// growth is the blocks to write to that a sequence needs to have so many tokens.
func (s *Body[B]) growth(tokens int) int {
	c := &s.Stores.Config
	blocks := c.BlocksOf(tokens)
	if s.Stores.Windowed() {
		blocks = min(blocks, c.WindowBlocks())
	}
	return blocks - len(s.Fresh().Blocks)
}

// reserveBoth is Reserve for sequences in two stores. What a sequence gives up of its window comes back
// to its claim of the fresh store from then on.
func (p *Stores[B]) reserveBoth(rs []Reservation[B], fresh []block.Reservation) error {
	kept, before := make([]block.Reservation, len(rs)), make([]int, len(rs))
	for i, r := range rs {
		before[i] = r.Body.Kept.Claim.Blocks()
		kept[i] = block.Reservation{Claim: &r.Body.Kept.Claim, Blocks: max(p.Config.Edge(r.Tokens-1)-r.Body.Full(), 0)}
	}
	if err := p.Kept.Reserve(kept); err != nil {
		return err
	}
	if err := p.Fresh.Reserve(fresh); err != nil {
		for i := range kept {
			p.Kept.Cancel(kept[i].Claim)
			_ = p.Kept.Restore(kept[i].Claim, before[i]) // there is room for what was promised
		}
		return err
	}
	for _, r := range rs {
		r.Body.Recent.Reserved = true
	}
	return nil
}
