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
func (l *Load) Meets() bool { return l.meets }

// Between is how many of the load's blocks come before those that are there. The guard is held.
func (l *Load) Between() int { return l.wanted - len(l.back.blocks) }

// loadBack brings blocks from the last one on, until the sequence has come so far.
func (o *Offload[B]) loadBack(ctx context.Context, l *Load, w *Want) {
	for ctx.Err() == nil {
		o.guard.Lock()
		to, front := l.Between(), l.front
		o.guard.Unlock()
		n := min(o.up.blocks, max((to-front)/4, 1)) // small ones in the end: what is computed meanwhile is loaded for nothing
		if to-front < 1 || !o.bringBack(ctx, l, w, to-n, to) {
			return
		}
	}
}

// bringBack loads blocks from one to another, and reports whether all of them are there.
func (o *Offload[B]) bringBack(ctx context.Context, l *Load, w *Want, from, to int) bool {
	r := o.read(ctx, w.Keys[from:to], true)
	if r == nil {
		return false
	}
	defer o.giveBack(r)
	result := <-r.result
	if result.Blocks < to-from {
		return false
	}
	taken := o.take(l, w, to-from)
	if taken == nil {
		return false
	}
	o.guard.Lock()
	defer o.guard.Unlock()
	defer delete(o.owned, taken)
	var err error
	whole := len(taken.blocks) == to-from
	if whole {
		_ = o.blocks.Lend(func() error { err = o.unpack(taken.blocks, r.memory); return nil })
	}
	if !whole || o.blocks.Observe(err) != nil || l.dropped || l.epoch != o.epoch {
		_ = o.blocks.Retire(nil, taken.blocks)
		return false
	}
	l.back.blocks = append(append([]block.Block(nil), taken.blocks...), l.back.blocks...)
	for i, n := range result.By {
		l.from[i] += n
	}
	return true
}

// Meet tells a load that its sequence has computed the first so many of its blocks, and returns the others if they are all there:
// they are the caller's then, and the load is over. The guard is held.
func (o *Offload[B]) Meet(l *Load, computed int) []block.Block {
	l.front = computed
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
	for i, left := len(l.from)-1, len(rest); i >= 0; i-- {
		n := min(l.from[i], left)
		left -= n
		o.stats.Tokens[i] += int64(n * o.tokens)
	}
	o.stats.Loaded += int64(len(rest))
	return rest
}

// GiveWay gives up what loads brought for sequences that have not come so far, and reports whether that was anything: others lack
// blocks. The guard is held.
func (o *Offload[B]) GiveWay() (any bool) {
	for l := range o.meeting {
		if len(l.back.blocks) > 0 {
			any = true
			o.Drop(l)
		}
	}
	return any
}
