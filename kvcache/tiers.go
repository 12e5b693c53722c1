package kvcache

import (
	"context"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/below"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// HostTier is why a device's pools have no tier of host memory, an ErrUnsupported; nil: they may have one.
func HostTier(device backend.Info) error { return below.HostTier(device) }

// Ignored lists the environment variables that the pool ignores, and why: those of its Config, and those whose tier could
// not be opened. NewPool logs each to Config.Logger, at level Warn.
func (p *Pool[B]) Ignored() []config.Ignored { return append(p.cfg.Ignored(), p.below.Ignored...) }

// Tiers says what is below the device, the fastest first; nil: nothing. Match.Tiers and Stats.Tiers are in this order.
func (p *Pool[B]) Tiers() []tier.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closedErr() != nil {
		return nil
	}
	return slices.Clone(p.below.Infos)
}

// Prefilled tells the pool what the runner computed: so many tokens of a prompt after a context of others, and how long that took.
// By that the pool knows when loading is faster: until it is told, it loads whatever tiers have. With steps of several prompts it is told the
// part of each.
func (p *Pool[B]) Prefilled(context, tokens int, took time.Duration) {
	if o := p.below.Offload; o != nil {
		o.Planner().Prefilled(context, tokens, took)
	}
}

// Flush waits until all blocks written so far are in tiers, or ctx ends, whatever others write meanwhile. It does not wait for a tier that
// hangs, and then returns tier.ErrHung. Close flushes too, for a limited time.
func (p *Pool[B]) Flush(ctx context.Context) (err error) {
	defer naming("Pool.Flush", &err)
	if err := p.closedErr(); err != nil {
		return err
	}
	if p.below.Offload == nil {
		return nil
	}
	return p.below.Offload.Flush(ctx)
}
