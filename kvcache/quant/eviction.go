package quant

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
)

// Evict reduces the layer to at most budget tokens, those that the policy keeps, and frees blocks
// that are not needed any more. ErrArgument for a negative budget, backend.ErrConfig when a policy
// returns an invalid answer; the layer is then as it was.
func (l *Layer) Evict(budget int) error {
	if err := l.made("evict"); err != nil {
		return err
	}
	c := l.cache
	if budget < 0 {
		return backend.ErrArgument{Package: "quant", Op: "evict", What: fmt.Sprintf("a budget of %d tokens, need at least 0", budget)}
	}
	about := evict.Layer{Len: len(l.entries), Scratch: &c.scratch}
	if c.cfg.EvictionPolicy.NeedsScores() {
		about.Heads, about.Scores = 1, l.mass()
	}
	var err error
	if c.keep, err = evict.Select(c.keep[:0], c.cfg.EvictionPolicy, about, budget); err != nil {
		return c.cfg.badPolicy(err)
	}
	return l.retain(c.keep[0])
}

// mass is the scores as a policy wants them.
func (l *Layer) mass() []float32 {
	mass := l.cache.mass[:0]
	for _, e := range l.entries {
		mass = append(mass, float32(min(e.score, math.MaxFloat32)))
	}
	l.cache.mass = mass
	return mass
}

// retain lets go of all entries but those. Of the tokens that stay, those in the last
// slots move to where others went, so that the slots are again 0, 1, …, and the last
// blocks are empty.
func (l *Layer) retain(keep []int) error {
	c, n := l.cache, len(keep)
	c.holes = c.holes[:0]
	next := 0
	for i, e := range l.entries {
		if next < n && keep[next] == i {
			next++
		} else if e.slot < n {
			c.holes = append(c.holes, e.slot)
		}
	}
	for to, from := range keep {
		e := l.entries[from]
		if e.slot >= n { // as many as there are holes
			hole := c.holes[len(c.holes)-1]
			c.holes = c.holes[:len(c.holes)-1]
			l.token(hole).Copy(l.token(e.slot))
			e.slot = hole
		}
		l.entries[to] = e
	}
	l.entries = l.entries[:n]
	needed := (n + blockSize - 1) / blockSize
	unneeded := l.table[needed:]
	l.table = l.table[:needed]
	return c.memory.Release(unneeded)
}
