package replay

import (
	"context"
	"time"
)

// checkEvery is how many requests are replayed, or read, between two looks at the
// context.
const checkEvery = 256

// cache is what a trace is replayed through. Of the path of a request it finds
// the longest beginning that it holds, and holds the rest of it, too, as far as it
// has room; then nothing is in use any more.
type cache interface {
	request(path []uint32) (hits int, err error)
}

// Run is a replay and what came of it.
type Run struct {
	Policy   string
	Capacity Capacity
	Blocks   int // of the capacity
	Hits     int // of the trace's references
	Seconds  float64
}

// Replay replays the trace once. Of a path the cached beginning counts as hits
// and is held; the rest is allocated front to back, evicting what the policy says,
// and left out from where nothing is left to evict; then the request ends. step
// is told now and then of requests replayed since it was last called. ErrSetting
// when there is no such policy.
func (t *Trace) Replay(ctx context.Context, policy string, capacity Capacity, step func(requests int)) (Run, error) {
	r := Run{Policy: policy, Capacity: capacity, Blocks: capacity.Blocks(t)}
	start := time.Now()
	// More than all blocks makes no difference, and costs memory.
	c, err := newCache(policy, t, min(r.Blocks, t.unique))
	if err != nil {
		return r, err
	}
	done := 0
	for i := range t.requests {
		hits, err := c.request(t.Path(i))
		if err != nil {
			return r, err
		}
		r.Hits += hits
		if done++; done == checkEvery {
			if err := ctx.Err(); err != nil {
				return r, err
			}
			step(done)
			done = 0
		}
	}
	step(done)
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

func newCache(policy string, t *Trace, capacity int) (cache, error) {
	if policy == Optimum {
		return newOptimum(t, capacity), nil
	}
	return newTree(policy, capacity)
}

// Sweep replays the trace for every capacity under every policy, in this order,
// and hands over each run as it ends.
func (t *Trace) Sweep(ctx context.Context, capacities []Capacity, policies []string, step func(requests int), done func(Run) error) error {
	for _, c := range capacities {
		for _, p := range policies {
			r, err := t.Replay(ctx, p, c, step)
			if err != nil {
				return err
			}
			if err := done(r); err != nil {
				return err
			}
		}
	}
	return nil
}
