package replay

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Kinds of parts, by which Run.Uses counts blocks.
const (
	FullParts = iota
	WindowParts
	StateParts
	kinds
)

// Use is the blocks of the parts of a kind.
type Use struct {
	Held   Amount // the most that a request has at once
	Cached Amount // what is findable between requests; with windows and states, of samples of the replay
}

// Amount is a number of blocks over a replay.
type Amount struct {
	Mean float64
	Peak int
}

// samples is how often, at most, the blocks of windows and of states are distinguished, which takes a look at each.
const samples = 64

// uses counts blocks by kind.
type uses struct {
	parts        []group.Part
	held, cached [kinds]total
	most         [kinds]int // of the request
	every, left  int        // requests from sample to sample, and to the next one

	// With windows and states, by number of a block: as it was allocated last, and for which kind.
	blocks []block.Block
	kind   []uint8
}

// total is what an Amount is computed from.
type total struct{ sum, n, peak int }

func (t *total) add(n int) { t.sum, t.n, t.peak = t.sum+n, t.n+1, max(t.peak, n) }

func (t *total) amount() Amount { return Amount{float64(t.sum) / float64(max(t.n, 1)), t.peak} }

func newUses(p Parts, parts []group.Part, blocks, requests int) uses {
	u := uses{parts: parts, every: 1}
	if p.Windows > 0 && p.States > 0 {
		u.blocks, u.kind = make([]block.Block, blocks), make([]uint8, blocks)
		u.every = max((requests+samples-1)/samples, 1)
	}
	u.left = u.every
	return u
}

func (u *uses) of(part int) uint8 {
	switch u.parts[part].Kind {
	case group.Full:
		return FullParts
	case group.State:
		return StateParts
	default:
		return WindowParts
	}
}

// allocated notes what new blocks are for.
func (u *uses) allocated(part int, blocks []block.Block) {
	if u.blocks == nil {
		return
	}
	for _, b := range blocks {
		u.blocks[b.ID], u.kind[b.ID] = b, u.of(part)
	}
}

// holds looks at what the request has.
func (u *uses) holds(lists []tail) {
	var now [kinds]int
	for part, l := range lists {
		now[u.of(part)] += len(l.blocks)
	}
	for k, n := range now {
		u.most[k] = max(u.most[k], n)
	}
}

// ended looks at what is left when a request has ended.
func (u *uses) ended(c *group.Cache, cached int) {
	for k, n := range u.most {
		u.held[k].add(n)
	}
	u.most = [kinds]int{}
	if u.left--; u.left > 0 {
		return
	}
	u.left = u.every
	full := c.Entries().Cached() // each has a block of full attention
	now := [kinds]int{FullParts: full}
	now[u.of(len(u.parts)-1)] = cached - full
	for id, b := range u.blocks {
		if known, _ := c.Has(b); known && u.kind[id] == WindowParts {
			now[WindowParts]++
			now[StateParts]--
		}
	}
	for k, n := range now {
		u.cached[k].add(n)
	}
}

func (u *uses) all() (out [kinds]Use) {
	for k := range out {
		out[k] = Use{u.held[k].amount(), u.cached[k].amount()}
	}
	return out
}
