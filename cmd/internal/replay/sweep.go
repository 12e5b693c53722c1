package replay

import (
	"cmp"
	"context"
	"errors"
	"io"
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

	Below *Below // with Tiers
}

// Setup is what a trace is replayed through beside a capacity and a policy. The zero value is a cache alone, of a model with full attention.
type Setup struct {
	Parts Parts
	Tiers Tiers
}

// Check reports what is out of range, or cannot be combined, as an ErrSetting.
func (s Setup) Check() error {
	if err := s.Parts.Check(); err != nil {
		return err
	}
	if s.Parts.Any() && s.Tiers.Any() {
		return ErrSetting{"host or --disk", cmp.Or(s.Tiers.Host.String(), s.Tiers.Disk.String()), "is for models with full attention only"}
	}
	return s.Tiers.Check()
}

// Replay replays the trace once. Of a path the cached beginning counts as hits
// and is held; the rest is allocated front to back, evicting what the policy says,
// and left out from where nothing is left to evict; then the request ends. step
// is called now and then with the requests replayed since its last call. ErrSetting
// when there is no such policy.
//
// With parts a request finds what group.Cache finds: less, where a block of a window
// or a state is missing. It is computed in steps, and each part has the blocks that it
// needs meanwhile.
//
// With tiers, what a request computes goes down, too, and hits are also what tiers bring back: see tiered.
func (t *Trace) Replay(ctx context.Context, policy string, capacity Capacity, s Setup, step func(requests int)) (r Run, err error) {
	r = Run{Policy: policy, Capacity: capacity, Blocks: s.Parts.Blocks(capacity, t)}
	start := time.Now()
	c, err := newCache(policy, t, s, r.Blocks)
	if err != nil {
		return r, err
	}
	if held, ok := c.(io.Closer); ok {
		defer func() { err = errors.Join(err, held.Close()) }()
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
	switch c := c.(type) {
	case *grouped:
		r.Full, r.Uses = c.full, c.uses.all()
	case *tiered:
		r.Below = c.report()
	}
	return r, nil
}

func newCache(policy string, t *Trace, s Setup, capacity int) (cache, error) {
	capacity = min(capacity, s.Parts.room(t)) // more makes no difference, and costs memory
	switch {
	case s.Parts.Any():
		return newGrouped(policy, t, s.Parts, capacity)
	case s.Tiers.Any():
		return newTiered(policy, t, s.Tiers, capacity)
	case policy == Optimum:
		return newOptimum(t, capacity), nil
	}
	return newTree(policy, capacity)
}

// Sweep replays the trace for every capacity under every policy, in this order,
// and hands over each run as it ends.
func (t *Trace) Sweep(ctx context.Context, capacities []Capacity, policies []string, s Setup, step func(requests int), done func(Run) error) error {
	for _, c := range capacities {
		for _, p := range policies {
			r, err := t.Replay(ctx, p, c, s, step)
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
