package replay

import (
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// clock is the time of a replay in which computing and loading have constant rates, and the planner that goes by it.
// Requests come when the trace says; each has runner and tiers for itself.
type clock struct {
	trace   *Trace
	tiers   Tiers
	rates   []float64 // bytes a second of each tier
	planner *planner.Planner
	now     time.Time

	// The planner decides about parts of the trace's blocks, as large as what a pool loads at a time.
	tokens int // of one
	each   int // of a block of the trace
}

func newClock(t *Trace, tiers Tiers) *clock {
	c := &clock{trace: t, tiers: tiers, rates: tiers.rates(), tokens: t.BlockTokens}
	for c.tokens%2 == 0 && c.tokens > config.DefaultBlockSize && int64(c.tokens)*tiers.TokenBytes > partBytes {
		c.tokens /= 2
	}
	c.each = t.BlockTokens / c.tokens
	c.planner = planner.New(len(c.rates))
	return c
}

// timed reports whether time counts.
func (c *clock) timed() bool { return c.tiers.Prefill > 0 }

// blockBytes is the bytes of a block of the trace.
func (c *clock) blockBytes() int64 { return int64(c.trace.BlockTokens) * c.tiers.TokenBytes }

// begin begins a request.
func (c *clock) begin(request int) {
	c.now = time.Unix(0, int64(c.trace.requests[request].at*1e9))
}

// duration is how long computing takes from a token of a prompt to another; the last token is computed in any case.
func (c *clock) duration(from, to int) time.Duration {
	return seconds(float64(max(to-from, 1)) / c.tiers.Prefill)
}

// compute is duration, which it reports to the planner.
func (c *clock) compute(from, to int) time.Duration {
	took := c.duration(from, to)
	if to > from {
		c.planner.Prefilled(from, to-from, took)
	}
	return took
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// load says how many tokens of the blocks that tiers have after the first ones of a prompt are loaded, how many blocks are read
// only for the planner to know how fast their tier is, and how long the request waits.
func (c *clock) load(from int, places []tier.Place) (tokens, probe int, waited time.Duration) {
	all := 0
	q := planner.Prompt{BlockTokens: c.tokens, BlockBytes: int64(c.tokens) * c.tiers.TokenBytes, Context: from * c.trace.BlockTokens}
	for _, p := range places {
		all += p.Blocks
		q.Pieces = append(q.Pieces, planner.Piece{Tier: p.Tier, Blocks: p.Blocks * c.each})
	}
	if !c.timed() {
		return all * c.trace.BlockTokens, 0, 0
	}
	begin := c.now
	q.Now = begin
	d := c.planner.Decide(q)
	computing := d.Computing
	if d.Blocks == 0 && d.Probe > 0 {
		c.bring(&q, d.Probe, time.Hour) // in the background: no request waits for it
		return 0, (d.Probe + c.each - 1) / c.each, 0
	}
	for d.Blocks > 0 {
		had := q.Loaded
		q.Waited += c.bring(&q, 1, d.Wait)
		c.now = begin.Add(q.Waited)
		if q.Now = c.now; q.Loaded == had || q.Loaded == all*c.each {
			break
		}
		d = c.planner.Decide(q)
	}
	if q.Waited > 0 {
		c.planner.Ended(q.Waited, computing*time.Duration(q.Loaded)/time.Duration(all*c.each))
	}
	return q.Loaded * c.tokens, 0, q.Waited
}

// bring loads n of the planner's blocks, as many of them as come in time, reports them to it, and returns how long that took.
func (c *clock) bring(q *planner.Prompt, n int, most time.Duration) (took time.Duration) {
	at := q.Loaded
	for _, piece := range q.Pieces {
		if at >= piece.Blocks {
			at -= piece.Blocks
			continue
		}
		k := min(piece.Blocks-at, n)
		one := float64(q.BlockBytes) / c.rates[piece.Tier]
		came := k
		if left := (most - took).Seconds(); float64(k)*one > left {
			came = max(int(left/one), 0)
		}
		if came > 0 {
			c.planner.Observe(piece.Tier, int64(came)*q.BlockBytes, seconds(float64(came)*one), c.now)
		}
		q.Loaded += came
		if came < k {
			c.planner.Late(piece.Tier, int64(k-came)*q.BlockBytes, most-took, c.now)
			return most
		}
		took += seconds(float64(k) * one)
		if n -= k; n == 0 {
			break
		}
		at = 0
	}
	return took
}
