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
	n := 0
	for _, piece := range q.Pieces {
		if p.tier(piece.Tier) == nil || piece.Blocks < 0 || piece.Blocks > mostBlocks-n {
			return nil, false
		}
		n += piece.Blocks
	}
	if q.BlockTokens <= 0 || q.BlockBytes <= 0 || q.Loaded < 0 || q.Loaded >= n || q.Context < 0 {
		return nil, false
	}
	c := &costs{compute: make([]float64, 1, n+1), bytes: make([]float64, 1, n+1), piece: make([]int, 0, n)}
	at := q.Context
	for i, piece := range q.Pieces {
		e := p.tier(piece.Tier)
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
			c.compute = append(c.compute, c.compute[c.n]+float64(q.BlockTokens)*p.compute.perToken(at))
			at = plus(at, q.BlockTokens)
			c.bytes = append(c.bytes, c.bytes[c.n]+perByte*float64(q.BlockBytes))
			c.piece = append(c.piece, i)
			c.n++
		}
	}
	return c, true
}

// choose compares the choices. first is the tier of the next block.
func (p *Planner) choose(q *Prompt, c *costs, d *Decision, first int) {
	computing := c.compute[c.n] - c.compute[q.Loaded]
	best, choice := computing, Compute
	took, waited := 0.0, (q.Asked + q.Waited).Seconds()
	for at := q.Loaded; at < c.n; {
		left := c.patience(at, waited+took)
		n := c.part(at, left)
		if n == 0 {
			break
		}
		if at == q.Loaded {
			d.Blocks, d.Wait = n, duration(left)
		}
		took += c.load(at, at+n)
		at += n
		if seconds := took + c.compute[c.n] - c.compute[at]; seconds < best {
			if best, choice = seconds, Prefix; at == c.n {
				choice = Load
			}
		}
	}
	if q.Both {
		for i := q.Loaded + 1; i < c.n; i++ {
			if seconds := max(c.compute[i]-c.compute[q.Loaded], c.load(i, c.n)); seconds < best {
				best, choice, d.Blocks, d.Wait = seconds, Meet, c.n-i, duration(computing) // it ends when computing does
			}
		}
	}
	d.Choice, d.Why = choice, fmt.Sprintf("%v takes %v, computing %v", choice, duration(best), duration(computing))
	switch {
	case choice == Compute && took == 0:
		d.Why = fmt.Sprintf("the next block is not expected within the %v that may be waited for it", duration(max(c.patience(q.Loaded, waited), 0)))
	case choice == Compute:
		d.Why = "loading as much as may be waited for takes no less than computing it"
	case q.Whole && choice == Prefix && q.Loaded == 0 && c.load(0, c.n) >= computing:
		d.Choice, d.Why = Compute, fmt.Sprintf("loading all takes %v, computing %v, and a part is of no use", d.Loading, d.Computing)
	case !p.tier(first).loading && q.Loaded == 0 && best > (1-margin)*computing:
		d.Choice, d.Why = Compute, fmt.Sprintf("%v takes %v, less than computing by less than a tenth", choice, duration(best))
	}
	if d.Choice == Compute {
		d.Blocks, d.Wait = 0, 0
	}
}

// patience is the seconds that the block behind the first ones may be waited for, when they are there after a while.
func (c *costs) patience(loaded int, waited float64) float64 {
	return slack*c.compute[c.n] + c.compute[loaded] - waited
}

// part is how many blocks to load at once when left seconds may be waited: as many as are expected in half of that, so that there is
// something to judge by before it is over, or, of a tier that has hardly begun by then, in most of it. 0: not even the next one is.
func (c *costs) part(from int, left float64) (n int) {
	one := c.load(from, from+1)
	if one > left {
		return 0
	}
	most := max(left/2, min(2*one, 0.9*left))
	for n = 1; from+n < c.n && c.piece[from+n] == c.piece[from] && c.load(from, from+n+1) <= most; n++ {
	}
	return n
}
