package kvcache

import (
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// Stats are the numbers of a pool at one moment. Free + Cached + Held == Blocks.
type Stats struct {
	Blocks   int // in the pool
	Free     int // can be handed out, without content
	Cached   int // can be handed out, with content that Open can find until then
	Held     int // used by sequences, open steps, and steps on the device
	Retired  int // held references that wait for steps on the device
	Reserved int // set aside by Reserve, not yet taken
	Peak     int // most blocks held at once
	// Logical counts the blocks of all sequences, a shared block once for each owner: sharing
	// saves Logical − Held blocks while no step is open or on the device.
	Logical       int
	Sequences     int
	BlockTokens   int   // of a block; with Model.Groups, of an entry of the prefix tree
	BytesPerBlock int64 // keys, values, their scales, and scores, in all layers
	BytesHeld     int64 // of the held blocks, with those of Storage.Residual
	BytesShared   int64 // bytes that sharing saves: those of Logical − Held blocks
	Suspended     int   // sequences that are suspended
	BytesAway     int64 // host memory of those
	// Prefix has the numbers of prefix reuse; its Blocks are those that Open can find.
	Prefix prefix.Stats
	Groups []GroupStats // of Model.Groups, those of kind none aside
	Tiers  []TierStats  // below the device, as Pool.Tiers has them
	Moves  MoveStats    // to tiers and back
}

// GroupStats are the numbers of a group of layers. A block belongs to one group at a time.
type GroupStats struct {
	Group    int // in Model.Groups
	Kind     group.Kind
	Logical  int // blocks of all sequences, a shared one once for each owner
	Findable int // blocks that are with entries of the prefix tree, in use or not; a hit needs some of every group
}

// Stats returns the pool's numbers. Before it counts, it frees blocks whose steps the device
// has finished. It returns ErrClosed after Close.
func (p *Pool[B]) Stats() (stats Stats, err error) {
	defer naming("Pool.Stats", &err)
	if stats, err = p.stats(); err != nil || stats.Tiers == nil {
		return stats, err
	}
	for i, s := range p.below.Stats() { // without the lock
		stats.Tiers[i].Stats = s
	}
	return stats, nil
}

func (p *Pool[B]) stats() (Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closedErr(); err != nil {
		return Stats{}, err
	}
	if err := p.parts.Reclaim(); err != nil {
		return Stats{}, err
	}
	perBlock := p.parts.BlockBytes
	b := p.parts.Stats()
	stats := Stats{
		Blocks: b.Blocks, Free: b.Free, Cached: b.Cached, Held: b.Held,
		Retired: b.Retired, Reserved: b.Reserved, Peak: b.Peak,
		Logical: p.parts.Logical(), Sequences: len(p.seqs), BlockTokens: p.cfg.EntryTokens(), BytesPerBlock: perBlock,
	}
	stats.BytesHeld = int64(stats.Held) * perBlock
	for _, st := range p.parts.All {
		for _, own := range st.Stores[1:] {
			stats.BytesHeld += int64(own.Stats().Held) * own.BlockBytes
		}
	}
	stats.BytesShared = int64(max(stats.Logical-stats.Held, 0)) * perBlock
	for s := range p.seqs {
		if a := s.runs.Suspended; a != nil {
			stats.Suspended++
			stats.BytesAway += a.Bytes()
		}
	}
	if p.tree != nil {
		stats.Prefix = p.tree.Stats()
	}
	stats.Groups = p.groupStats()
	if o := p.below.Offload; o != nil {
		stats.Tiers, stats.Moves = belowStats(p.below.Infos, o.Stats(), o.BlockBytes())
	}
	return stats, nil
}

func (p *Pool[B]) groupStats() (out []GroupStats) {
	cached := p.parts.Blocks.Groups()
	for i, part := range p.cfg.Parts() { // those of a group follow each other
		if part.Of < 0 { // there are no groups
			continue
		}
		if len(out) == 0 || out[len(out)-1].Group != part.Of {
			out = append(out, GroupStats{Group: part.Of, Kind: part.Rule.Kind})
		}
		g := &out[len(out)-1]
		g.Logical += p.parts.All[i].Kept.Logical
		g.Findable += cached.With(i)
	}
	return out
}

// Check verifies the pool's invariants: every block is free, cached or held, each reference to it
// has an owner, and each fence its holders. It visits every block and sequence: call it at the end
// of tests.
func (p *Pool[B]) Check() (err error) {
	defer naming("Pool.Check", &err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closedErr(); err != nil {
		return err
	}
	all := func(yield func(*store.Runs[B]) bool) {
		for s := range p.seqs {
			if !yield(&s.runs) {
				return
			}
		}
	}
	return p.parts.Check(all, func(books []store.Books) {
		if o := p.below.Offload; o != nil {
			o.Own(books[0][0])
		}
		for b := range p.batches {
			b.step.Own(books, b.state == stepPlanning || b.state == stepPlanned)
		}
	})
}

// TierStats are the numbers of a tier below the pool's device.
type TierStats struct {
	tier.Info
	Stats  tier.Stats     // of all that use it; the last known ones if it does not answer soon
	Moves  tier.TierMoves // what it did for this pool, and how it failed
	Tokens int64          // of prompts that sequences got from it
}

// MoveStats are the numbers of what goes from the device to tiers and back. Blocks are those of the pool.
type MoveStats struct {
	BlockBytes int64 // of a block, as tiers have it
	Stored     int64 // blocks that were put into tiers
	There      int64 // blocks that tiers had already
	// Missed counts blocks that were not stored, each once: they left the device before they were copied, or could not be held, or no
	// tier took them. Blocks that were loaded from a tier do not count.
	Missed  int64
	Waiting int   // blocks written, but not yet given to a tier
	Loaded  int64 // blocks that came back
	Loading int   // loads under way
	Planner planner.Stats
	Reason  string // why the last load loaded that much
}

// belowStats are the numbers of an offload, but for what the tiers say.
func belowStats(tiers []tier.Info, s offload.Stats, bytes int64) ([]TierStats, MoveStats) {
	out := make([]TierStats, len(tiers))
	for i, info := range tiers {
		out[i] = TierStats{Info: info, Moves: s.Moves.Tiers[i], Tokens: s.Tokens[i]}
	}
	return out, MoveStats{BlockBytes: bytes, Stored: s.Stored, There: s.There, Missed: s.Missed, Waiting: s.Waiting, Loaded: s.Loaded, Loading: s.Loading,
		Planner: s.Decisions, Reason: s.Reason}
}
