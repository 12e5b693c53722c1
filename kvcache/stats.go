package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Stats are the numbers of a pool at one moment. Free + Cached + Held == Blocks.
type Stats struct {
	Blocks   int // in the pool
	Free     int // can be handed out, content worthless
	Cached   int // can be handed out, content still valid and findable
	Held     int // by sequences, open steps, and steps on the device
	Retired  int // of the held: references that wait for the device
	Reserved int // promised to sequences, not yet taken
	Peak     int // most blocks held at once
	// Logical counts the blocks of all sequences once for each owner: Logical − Held
	// blocks' worth of memory is saved by sharing while no step is open or in flight.
	Logical       int
	Sequences     int
	BytesPerBlock int64 // keys, values, their scales, and scores, in all layers
	BytesHeld     int64 // of the held blocks, with those of Config.Residual
	BytesShared   int64 // what Logical − Held saves
	// Prefix is the reuse of prefixes; its Blocks are those that can be found.
	Prefix prefix.Stats
}

// Stats returns the pool's numbers, after giving up what the device has finished with.
// ErrClosed after Close.
func (p *Pool[B]) Stats() (Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.shut(); err != nil {
		return Stats{}, fmt.Errorf("kvcache: stats: %w", err)
	}
	if err := p.reclaim(); err != nil {
		return Stats{}, err
	}
	_, perBlock, err := p.cfg.parts()
	b := p.kept.Stats()
	stats := Stats{
		Blocks: b.Blocks, Free: b.Free, Cached: b.Cached, Held: b.Held,
		Retired: b.Retired, Reserved: b.Reserved, Peak: b.Peak,
		Logical: p.kept.logical, Sequences: len(p.seqs), BytesPerBlock: perBlock,
	}
	stats.BytesHeld = int64(stats.Held) * perBlock
	if p.windowed() {
		_, each, of := p.cfg.residual().parts()
		stats.BytesHeld, err = stats.BytesHeld+int64(p.fresh.Stats().Held)*each, firstOf(err, of)
	}
	stats.BytesShared = int64(max(stats.Logical-stats.Held, 0)) * perBlock
	if p.tree != nil {
		stats.Prefix = p.tree.Stats()
	}
	return stats, err
}

// Check verifies the pool's invariants: every block is free, cached or held, each reference to it
// has an owner, and each fence its holders. It walks everything; tests call it at their end.
func (p *Pool[B]) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.shut(); err != nil {
		return fmt.Errorf("kvcache: check: %w", err)
	}
	return p.checkOwners()
}
