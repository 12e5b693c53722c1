package offload

import (
	"context"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// reading is a part of host memory that tiers fill with units.
type reading struct {
	units    []unit
	memory   *part
	result   chan tier.Result
	released chan struct{}
}

// lateWait is how much longer than its context a load is waited for: what came by then is told at once. A tier that goes on all the same
// keeps the memory as long as it likes.
const lateWait = 10 * time.Millisecond

// wait returns how many units came. Those know then which tier they came from.
func (r *reading) wait(ctx context.Context) int {
	var result tier.Result
	select {
	case result = <-r.result:
	case <-ctx.Done():
		late := time.NewTimer(lateWait)
		defer late.Stop()
		select {
		case result = <-r.result:
		case <-late.C:
			return 0
		}
	}
	for i, k := 0, 0; i < len(result.By); i++ {
		for n := k + result.By[i]; k < n; k++ {
			r.units[k].tier = i
		}
	}
	return result.Blocks
}

// read has the tiers fill a part of host memory with units; nil: there will be none, or, unless wait is set, no part is free.
func (o *Offload[B]) read(ctx context.Context, w *Request, units []unit, wait bool) *reading {
	r := &reading{units: units, result: make(chan tier.Result, 1), released: make(chan struct{})}
	if wait {
		soon, cancel := context.WithTimeout(ctx, Patience.Call)
		defer cancel()
		var err error
		if r.memory, err = o.up.part(soon); err != nil { // also if the memory that tiers hold cannot be replaced
			return nil
		}
	} else {
		select { // who waits with a part of its own may wait for one that waits
		case r.memory = <-o.up.parts:
		default:
			return nil
		}
	}
	lent := r.memory.lent
	job := tier.Job{Blocks: make([]tier.Block, len(units)), Done: func(res tier.Result) { r.result <- res }, Release: func() { close(r.released) },
		Late: func() { o.up.late(r.memory, lent) }}
	offsets, _ := o.shape.offsets(len(units), func(i int) int { return units[i].at })
	for i, u := range units {
		if n := len(job.Places); n > 0 && job.Places[n-1].Tier == u.tier {
			job.Places[n-1].Blocks++
		} else {
			job.Places = append(job.Places, tier.Place{Tier: u.tier, Blocks: 1})
		}
		var parent tier.Key
		if u.entry > 0 {
			parent = w.keys[u.entry-1]
		}
		n, key := o.bytesOf(u), w.keys[u.entry]
		job.Blocks[i] = tier.Block{Key: o.shape.key(key, u.at), Parent: o.shape.before(key, parent, u.at), Root: w.Path.Root.Key,
			Bytes: r.memory.Bytes()[offsets[i]:][:n:n]}
	}
	o.guard.Lock() // what tiers forget is not read any more: one that still has it would put it into one that has forgotten
	defer o.guard.Unlock()
	if w.epoch != o.epoch || o.mover.Load(ctx, job) != nil { // the mover has room for all parts
		o.up.back(r.memory)
		return nil
	}
	return r
}

// giveBack lets go of a part once no tier uses it: it may be put into those further up, and one that hangs keeps it.
func (o *Offload[B]) giveBack(r *reading) {
	o.returning.Go(func() {
		<-r.released
		o.up.back(r.memory)
	})
}

// probe reads units for nobody, so that the planner knows how fast their tier is.
func (o *Offload[B]) probe(w *Request, n int) {
	defer o.going.Done()
	defer o.probing.Store(false)
	ctx, cancel := context.WithTimeout(o.end, probeWait)
	defer cancel()
	if r := o.read(ctx, w, w.units[:o.part(w, 0, n)], false); r != nil { // loads need the parts more
		<-r.result
		o.giveBack(r)
	}
}

// probeWait is how long a tier that is tried has the memory for it.
const probeWait = 10 * time.Second
