package tiertest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// plain is a tier as simple as can be, in which one thing is wrong.
type plain struct {
	defect string
	o      Options

	mu     sync.Mutex
	closed bool
	now    int
	m      map[tier.Key]*kept
	stats  tier.Stats
	alien  []byte // the payload that was stored last
	seen   map[tier.Key]bool
}

type kept struct {
	tier.Block
	used int
	read bool
}

// folders is what tiers that outlive the process left.
var folders sync.Map

func openPlain(o Options, defect string) *plain {
	p := &plain{defect: defect, o: o, m: map[tier.Key]*kept{}, seen: map[tier.Key]bool{}}
	p.stats.Capacity = o.Bytes
	if old, ok := folders.Load(o.Dir); ok && defect != "forgets at Close" {
		p.m = old.(map[tier.Key]*kept)
		for _, k := range p.m {
			p.stats.Blocks++
			p.stats.Bytes += int64(len(k.Bytes))
		}
	}
	return p
}

func (p *plain) is(defect string) bool { return p.defect == defect }

func (p *plain) Info() tier.Info {
	if p.is("changes its Info") && p.closed {
		return tier.Info{Name: "closed", Medium: tier.Memory}
	}
	return tier.Info{Name: "plain", Medium: tier.Memory, Outlives: true}
}

// enter is the beginning of each call.
func (p *plain) enter(ctx context.Context) error {
	if p.closed && !p.is("works after Close") {
		return tier.ErrClosed{Name: "plain"}
	}
	if p.is("knows no contexts") {
		return nil
	}
	return ctx.Err()
}

// there is how many of the first keys are there.
func (p *plain) there(keys []tier.Key, ok func(i int, k *kept) bool) (n int) {
	for i, key := range keys {
		k := p.m[key]
		if k == nil || !ok(i, k) {
			if p.is("skips gaps") {
				continue
			}
			break
		}
		n++
	}
	p.stats.Queried += int64(len(keys))
	p.stats.Hits += int64(n)
	if p.is("counts hits as queries") {
		p.stats.Queried += int64(n - len(keys))
	}
	return n
}

func (p *plain) Has(ctx context.Context, keys []tier.Key) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.enter(ctx); err != nil {
		return 0, err
	}
	if p.is("says more in Has than Get finds") {
		for i, k := range keys {
			if !p.seen[k] {
				return i, nil
			}
		}
		return len(keys), nil
	}
	return p.there(keys, func(int, *kept) bool { return true }), nil
}

func (p *plain) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.enter(ctx); err != nil {
		return 0, err
	}
	p.now++
	n := p.there(keys(blocks), func(i int, k *kept) bool {
		dst := &blocks[i]
		if len(dst.Bytes) != len(k.Bytes) && !(p.is("takes any length") && len(dst.Bytes) > 0) {
			return false
		}
		from := k.Bytes
		if p.is("returns another block") && k.used+1 < p.now {
			from = p.alien
		}
		copy(dst.Bytes, from)
		if !p.is("loses the sum") {
			dst.Sum = k.Sum
		}
		if p.is("writes behind the payload") {
			clear(dst.Bytes[len(dst.Bytes):cap(dst.Bytes)])
		}
		k.used, k.read = p.now, true
		p.stats.Read += int64(len(k.Bytes))
		return true
	})
	if p.is("writes beyond the list") && len(blocks) < cap(blocks) {
		clear(blocks[:len(blocks)+1][len(blocks)].Bytes)
	}
	return n, nil
}

func (p *plain) Put(ctx context.Context, blocks []tier.Block) error {
	p.mu.Lock()
	if p.is("begins before it looks at the context") {
		for _, b := range blocks[:min(1, len(blocks))] {
			p.store(b)
		}
	}
	if err := p.enter(ctx); err != nil {
		p.mu.Unlock()
		return err
	}
	defer p.mu.Unlock()
	p.now++
	for _, b := range blocks {
		if k := p.m[b.Key]; k != nil && !p.is("writes again what is there") {
			k.used = p.now
			continue
		}
		if p.is("finds what it declined") {
			p.seen[b.Key] = true
		}
		if b.Key == (tier.Key{}) && !p.is("keeps the zero key") || len(b.Bytes) == 0 && !p.is("keeps empty payloads") || !p.makeRoom(b) {
			p.stats.Declined++
			if p.is("finds what failed to be stored") && len(b.Bytes) > 0 {
				p.m[b.Key] = &kept{Block: tier.Block{Key: b.Key, Root: b.Root, Bytes: bytes.Clone(p.alien)}}
			}
			if p.is("stops at a block that it declines") {
				return nil
			}
			continue
		}
		p.store(b)
	}
	return nil
}

func (p *plain) store(b tier.Block) {
	if p.m[b.Key] != nil {
		p.forget(b.Key)
	}
	if !p.is("keeps the caller's slice") {
		b.Bytes = bytes.Clone(b.Bytes)
	}
	p.m[b.Key] = &kept{Block: b, used: p.now}
	p.alien = b.Bytes
	p.seen[b.Key] = true
	p.stats.Stored++
	p.stats.Blocks++
	p.stats.Bytes += int64(len(b.Bytes))
	p.stats.Written += int64(len(b.Bytes))
}

// makeRoom gives up others until there is room for b.
func (p *plain) makeRoom(b tier.Block) bool {
	limit := p.o.Bytes
	switch p.defect {
	case "exceeds its capacity":
		limit += int64(len(b.Bytes))
	case "exceeds its capacity, and denies it":
		limit *= 2
	}
	if int64(len(b.Bytes)) > limit {
		return p.is("keeps what is too large")
	}
	for p.stats.Bytes+int64(len(b.Bytes)) > limit {
		victim := p.victim(b)
		if victim == nil {
			return false
		}
		p.stats.Evicted++
		if !victim.read || p.is("counts all as never used") {
			p.stats.NeverUsed++
		}
		if p.is("counts too many as never used") {
			p.stats.NeverUsed++
		}
		p.forget(victim.Key)
	}
	return true
}

// victim is the block used least recently of those that are no parent of another one, of b or of what this call put.
func (p *plain) victim(b tier.Block) (out *kept) {
	parents := map[tier.Key]bool{b.Parent: true}
	for _, k := range p.m {
		parents[k.Parent] = true
	}
	for _, k := range p.m {
		free := !parents[k.Key] && k.used < p.now
		if p.is("gives up parents first") {
			free = k.used < p.now
		}
		if p.is("gives up anything for the last block") {
			free = true
		}
		if free && (out == nil || k.used < out.used) {
			out = k
		}
	}
	return out
}

func (p *plain) forget(key tier.Key) {
	if k := p.m[key]; k != nil {
		p.stats.Blocks--
		p.stats.Bytes -= int64(len(k.Bytes))
		delete(p.m, key)
	}
}

func (p *plain) Delete(ctx context.Context, keys []tier.Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.enter(ctx); err != nil {
		return err
	}
	if p.is("deletes the first key alone") {
		keys = keys[:min(1, len(keys))]
	}
	for _, key := range keys {
		p.forget(key)
		delete(p.seen, key)
		if p.is("loses count of what it deletes") {
			p.stats.Blocks++
		}
	}
	return nil
}

func (p *plain) Clear(ctx context.Context, root tier.Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.enter(ctx); err != nil {
		return err
	}
	for key, k := range p.m {
		if k.Root == root || root == (tier.Key{}) && !p.is("does not clear all") || p.is("clears others") {
			if p.is("clears the first blocks alone") && k.Parent != (tier.Key{}) {
				continue
			}
			p.forget(key)
			delete(p.seen, key)
		}
	}
	return nil
}

func (p *plain) Stats() tier.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	if p.is("exceeds its capacity, and denies it") {
		s.Bytes = min(s.Bytes, s.Capacity)
	}
	return s
}

func (p *plain) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed && p.is("fails at a second Close"):
		return tier.ErrClosed{Name: "plain"}
	case p.is("leaks a goroutine"):
		go func() { select {} }()
	case p.is("forgets at Close"):
	case p.is("finds again what was deleted") && len(p.seen) > 0:
		for _, k := range slices.Collect(maps.Values(p.m)) {
			b := Chain("lasting", "a", 6, payload)[5]
			b.Parent, p.m[b.Key] = k.Key, &kept{Block: b}
		}
		folders.Store(p.o.Dir, p.m)
	default:
		folders.Store(p.o.Dir, p.m)
	}
	p.closed = true
	return nil
}
