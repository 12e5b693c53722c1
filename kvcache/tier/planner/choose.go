package planner

import "fmt"

// costs is what the blocks of a prompt cost, in seconds.
type costs struct {
	n       int
	compute []float64 // [n+1]: of the first i blocks
	bytes   []float64 // [n+1]: to read the first i blocks, without latencies
	latency []float64 // of each piece, with what its tier has queued
	piece   []int     // of each block
	unknown bool      // a piece is of a tier that was never observed
}

// load is the seconds to load blocks from to to−1: pieces come one after another.
func (c *costs) load(from, to int) float64 {
	if from >= to {
		return 0
	}
	sum := c.bytes[to] - c.bytes[from]
	for _, l := range c.latency[c.piece[from] : c.piece[to-1]+1] {
		sum += l
	}
	return sum
}

// costs computes them; it reports false when there is nothing to load, or the prompt makes no sense.
func (p *Planner) costs(q *Prompt) (*costs, bool) {
	c := &costs{compute: []float64{0}, bytes: []float64{0}}
	if q.BlockTokens <= 0 || q.BlockBytes <= 0 || q.Loaded < 0 || q.Context < 0 {
		return nil, false
	}
	for i, piece := range q.Pieces {
		if piece.Tier < 0 || piece.Tier >= len(p.tiers) || piece.Blocks < 0 {
			return nil, false
		}
		e := &p.tiers[piece.Tier]
		var latency, perByte float64
		if e.known() {
			latency, perByte = e.line()
		} else {
			c.unknown = true
		}
		if piece.Tier < len(q.Queued) {
			latency += perByte * float64(q.Queued[piece.Tier])
		}
		c.latency = append(c.latency, latency)
		for range piece.Blocks {
			at := q.Context + c.n*q.BlockTokens
			c.compute = append(c.compute, c.compute[c.n]+float64(q.BlockTokens)*p.compute.perToken(at))
			c.bytes = append(c.bytes, c.bytes[c.n]+perByte*float64(q.BlockBytes))
			c.piece = append(c.piece, i)
			c.n++
		}
	}
	return c, q.Loaded < c.n
}

// choose compares the choices. first is the tier of the next block.
func (p *Planner) choose(q *Prompt, c *costs, d *Decision, first int) {
	computing := c.compute[c.n] - c.compute[q.Loaded]
	best, blocks, choice := computing, 0, Compute
	try := func(seconds float64, n int, as Choice) {
		if seconds < best {
			best, blocks, choice = seconds, n, as
		}
	}
	for i := q.Loaded + 1; i <= c.n; i++ {
		as := Prefix
		if i == c.n {
			as = Load
		}
		try(c.load(q.Loaded, i)+c.compute[c.n]-c.compute[i], i-q.Loaded, as)
	}
	if q.Both {
		for i := q.Loaded + 1; i < c.n; i++ {
			try(max(c.compute[i]-c.compute[q.Loaded], c.load(i, c.n)), c.n-i, Meet)
		}
	}
	if choice != Compute && !p.tiers[first].loading && q.Loaded == 0 && best > (1-margin)*computing {
		d.Why = fmt.Sprintf("%v takes %v, less than computing by less than a tenth", choice, duration(best))
		return
	}
	d.Why = fmt.Sprintf("%v takes %v, computing %v", choice, duration(best), duration(computing))
	d.Choice, d.Blocks = choice, blocks
	switch choice {
	case Meet:
		d.Wait = duration(computing) // it ends when computing does
	case Load, Prefix:
		p.bound(q, c, d)
	}
}

// bound says how long the next blocks are waited for, and has so many of them loaded at once as are expected in half of that: then
// there is something to judge by before it is over.
func (p *Planner) bound(q *Prompt, c *costs, d *Decision) {
	left := slack*c.compute[c.n] + c.compute[q.Loaded] - q.Waited.Seconds()
	n := 0
	for n < d.Blocks && c.load(q.Loaded, q.Loaded+n+1) <= left/2 {
		n++
	}
	if n == 0 && c.load(q.Loaded, q.Loaded+1) <= left {
		n = 1
	}
	if n == 0 {
		d.Choice, d.Blocks = Compute, 0
		d.Why = fmt.Sprintf("the next block is not expected within the %v that may be waited for it", duration(max(left, 0)))
		return
	}
	d.Blocks, d.Wait = n, duration(left)
}
