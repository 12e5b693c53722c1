package kvcache

import (
	"context"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Pin keeps the full cached blocks of a prompt from eviction for the time d, or until
// Unpin. It may find none: see Lease.Match. At most half of the pool can be pinned
// (prefix.ErrPinned).
func (p *Pool[B]) Pin(prompt []uint32, d time.Duration, o OpenOptions) (_ *prefix.Lease, err error) {
	defer naming("Pool.Pin", &err)
	if err := o.check(prompt); err != nil {
		return nil, err
	}
	from := p.origin(prompt, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reusable(); err != nil {
		return nil, err
	}
	q := prefix.Query{Tokens: prompt, Extra: from.Extra, Accept: o.Accept}
	return p.parts.Blocks.Groups().Pin(from.Root, q, d)
}

// Unpin ends a lease. It returns prefix.ErrLeaseEnded if the lease has ended already.
func (p *Pool[B]) Unpin(l *prefix.Lease) (err error) {
	defer naming("Pool.Unpin", &err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reusable(); err != nil {
		return err
	}
	return p.parts.Blocks.Groups().Unpin(l)
}

// Limit bounds what the sequences of a salt may keep in the cache: see prefix.Limits.
func (p *Pool[B]) Limit(s prefix.Scope, l prefix.Limits) (err error) {
	defer naming("Pool.Limit", &err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reusable(); err != nil {
		return err
	}
	return p.tree.SetLimits(p.root(s), l)
}

// Clear forgets all cached prefixes, for example after the weights have changed, also in tiers. While
// sequences, leases or steps on the device use some it returns prefix.ErrInUse, unless
// force is set: then they keep their blocks, and what they write from now on is not
// offered to others. In a pool without prefix reuse it does nothing. An error of a tier names those that may still have some.
func (p *Pool[B]) Clear(force bool) (err error) {
	defer naming("Pool.Clear", &err)
	return p.clear(prefix.Root{}, func() error { return p.tree.Clear(force) })
}

// ClearScope is Clear of the prefixes of one salt and adapter.
func (p *Pool[B]) ClearScope(s prefix.Scope, force bool) (err error) {
	defer naming("Pool.ClearScope", &err)
	root := p.root(s)
	return p.clear(root, func() error { return p.tree.ClearRoot(root, force) })
}

// clear forgets what is under a root; of the zero one, all there is.
func (p *Pool[B]) clear(root prefix.Root, forget func() error) error {
	err := p.clearTree(root, forget)
	if err != nil || p.tree == nil {
		return err
	}
	if o := p.below.Offload; o != nil {
		err = o.Clear(context.Background(), root.Key)
	}
	p.logCleared(root == prefix.Root{}, err)
	return err
}

func (p *Pool[B]) clearTree(root prefix.Root, forget func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil || p.tree == nil {
		return err
	}
	if err := p.parts.Blocks.Reclaim(); err != nil { // what nobody uses any more does not count
		return err
	}
	if o := p.below.Offload; o == nil {
		if err := forget(); err != nil {
			return err
		}
	} else if err := o.Still(forget); err != nil {
		return err
	} else {
		o.Forget(root.Key)
	}
	for s := range p.seqs { // also those that had nothing in the tree yet
		if root == (prefix.Root{}) || s.text.Root == root {
			s.text.Silent = s.text.Silent || s.Len() > 0 || s.busy
		}
	}
	return nil
}

// Watch returns a subscription to what enters and leaves the prefix tree, with a buffer of room
// events (at most prefix.MaxEventBuffer), and what is in the tree now, as events. It is for a
// router that sends each request to a machine that has its prefix. With Model.Groups those that give blocks up are told
// by their number in Model.Groups plus 1 (prefix.Event.Group). It never blocks the pool.
// Unwatch or Close ends it.
func (p *Pool[B]) Watch(room int) (_ *prefix.Subscription, _ []prefix.Event, err error) {
	defer naming("Pool.Watch", &err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reusable(); err != nil {
		return nil, nil, err
	}
	if room > prefix.MaxEventBuffer {
		return nil, nil, argument("room for %d events: accepts up to %d", room, prefix.MaxEventBuffer)
	}
	sub, have := p.tree.Subscribe(room)
	return sub, append(have, p.parts.Blocks.Groups().Events()...), nil
}

// Unwatch ends a subscription and closes its channel.
func (p *Pool[B]) Unwatch(s *prefix.Subscription) {
	if p.tree != nil {
		p.tree.Unsubscribe(s)
	}
}

// SaltStats returns the numbers of one salt; they do not reveal what other salts do. A
// salt with limits is counted as long as it has them, any other from its first cached
// block until its last one is gone.
func (p *Pool[B]) SaltStats(s prefix.Scope) (_ prefix.Stats, err error) {
	defer naming("Pool.SaltStats", &err)
	if err := p.closedErr(); err != nil {
		return prefix.Stats{}, err
	}
	if p.tree == nil {
		return prefix.Stats{}, errNoReuse
	}
	return p.tree.SaltStats(p.root(s)), nil
}

// reusable reports why the pool has no prefix tree to work on.
func (p *Pool[B]) reusable() error {
	if p.tree == nil {
		return errNoReuse
	}
	return p.usable()
}

// errNoReuse is what a pool without a prefix tree says.
var errNoReuse = unsupported("the pool reuses no prefixes: it has the contiguous layout, or Memory.Prefix is off")
