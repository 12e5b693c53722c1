package offload

import (
	"context"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// A load that meets brings the last blocks first, while its sequence computes from the first on, until there is nothing between
// (Jin et al., "Compute or Load KV Cache? Why Not Both?", 2024, arXiv:2410.03065). What it brings is nobody's until then: the tree has no
// place for blocks whose parents it does not have.

// Meets reports whether the load brings the last blocks first.
func (l *Transfer) Meets() bool { return l.meets }

// Between is how many of the load's blocks come before those that are there. The guard is held.
func (l *Transfer) Between() int { return l.wanted - len(l.back.blocks) }

// loadBack brings blocks from the last one on, until the sequence has come so far.
func (o *Offload[B]) loadBack(ctx context.Context, l *Transfer, w *Request) {
	for ctx.Err() == nil {
		o.guard.Lock()
		to, front := l.Between(), l.front
		o.owe(l, w.units[min(front, to):to])
		o.guard.Unlock()
		n := min(int(o.up.bytes/o.shape.bytes), max((to-front)/4, 1)) // small ones in the end: what is computed meanwhile is loaded for nothing
		if to-front < 1 || !o.bringBack(ctx, l, w, to-n, to) {
			return
		}
	}
}

// bringBack loads blocks from one to another, and reports whether all of them are there.
func (o *Offload[B]) bringBack(ctx context.Context, l *Transfer, w *Request, from, to int) bool {
	r := o.read(ctx, w, w.units[from:to], true)
	if r == nil {
		return false
	}
	defer o.giveBack(r)
	if r.wait(ctx) < to-from {
		return false
	}
	taken := o.take(l, w, r.units, to-from)
	if taken == nil {
		return false
	}
	o.guard.Lock()
	defer o.guard.Unlock()
	defer func() { o.give(taken) }()
	var err error
	whole := len(taken.blocks) == to-from
	if whole {
		_ = o.blocks.Lend(func() error { err = o.unpack(r.units, taken.blocks, r.memory); return nil })
	}
	if !whole || o.blocks.Observe(err) != nil || l.dropped || l.epoch != o.epoch {
		return false
	}
	for _, b := range taken.blocks { // they are below
		o.ready.begin(b)
	}
	l.back.blocks = append(append([]block.Block(nil), taken.blocks...), l.back.blocks...)
	taken.blocks = nil
	for _, u := range r.units {
		l.by[u.entry] = u.tier
	}
	return true
}

// Meet tells a load that its sequence has computed the first so many of its blocks, and returns the others if they are all there:
// they are the caller's then, and the load is over. The guard is held.
func (o *Offload[B]) Meet(l *Transfer, computed int) []block.Block {
	if o.Forgotten(l) {
		o.Drop(l)
		return nil
	}
	l.front = max(computed, 0)
	skip := computed - l.Between()
	if skip < 0 || computed >= l.wanted {
		return nil
	}
	rest := l.back.blocks[skip:]
	_ = o.blocks.Retire(nil, l.back.blocks[:skip])
	l.back.blocks = nil
	if l.computing > 0 {
		o.planner.Ended(time.Since(l.begun), l.computing)
	}
	o.Drop(l)
	o.credit(l, len(l.by)-len(rest), len(l.by))
	o.stats.Loaded += int64(len(rest))
	return rest
}

// ReclaimPrefetched gives up what loads brought for sequences that have not come so far, and reports whether that was anything: others lack
// blocks. The guard is held.
func (o *Offload[B]) ReclaimPrefetched() (any bool) {
	for l := range o.meeting {
		if len(l.back.blocks) > 0 {
			any = true
			o.Drop(l)
		}
	}
	return any
}
