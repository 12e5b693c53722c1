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

	// With Parts: the hits if a request needed the blocks of full attention alone, of the same tree, and
	// the blocks by kind of part.
	Full int
	Uses [kinds]Use
}

// Replay replays the trace once. Of a path the cached beginning counts as hits
// and is held; the rest is allocated front to back, evicting what the policy says,
// and left out from where nothing is left to evict; then the request ends. step
// is told now and then of requests replayed since it was last called. ErrSetting
// when there is no such policy.
//
// With parts a request finds what group.Cache finds: less, where a block of a window
// or a state is missing. It is computed in steps, and each part has the blocks that it
// needs meanwhile.
func (t *Trace) Replay(ctx context.Context, policy string, capacity Capacity, parts Parts, step func(requests int)) (Run, error) {
	r := Run{Policy: policy, Capacity: capacity, Blocks: parts.Blocks(capacity, t)}
	start := time.Now()
	c, err := newCache(policy, t, parts, r.Blocks)
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
	if g, ok := c.(*grouped); ok {
		r.Full, r.Uses = g.full, g.uses.all()
	}
	return r, nil
}

func newCache(policy string, t *Trace, parts Parts, capacity int) (cache, error) {
	capacity = min(capacity, parts.room(t)) // more makes no difference, and costs memory
	switch {
	case parts.Any():
		return newGrouped(policy, t, parts, capacity)
	case policy == Optimum:
		return newOptimum(t, capacity), nil
	}
	return newTree(policy, capacity)
}

// Sweep replays the trace for every capacity under every policy, in this order,
// and hands over each run as it ends.
func (t *Trace) Sweep(ctx context.Context, capacities []Capacity, policies []string, parts Parts, step func(requests int), done func(Run) error) error {
	for _, c := range capacities {
		for _, p := range policies {
			r, err := t.Replay(ctx, p, c, parts, step)
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
