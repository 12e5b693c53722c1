package kvcache

import (
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// TierStats are the numbers of a tier below the pool's device.
type TierStats struct {
	tier.Info
	Stats  tier.Stats     // what it has, and did for all that use it
	Moves  tier.TierMoves // what it did for this pool, and how it failed
	Tokens int64          // of prompts that sequences got from it
}

// MoveStats are the numbers of what goes from the device to tiers and back. Blocks are those of the pool.
type MoveStats struct {
	BlockBytes int64 // of a block, as tiers have it
	Stored     int64 // blocks that were put into tiers
	There      int64 // blocks that tiers had already
	Missed     int64 // blocks that were not stored: they had left the device, or could not be held, or no tier took them
	Waiting    int   // blocks that are written, and not stored yet
	Loaded     int64 // blocks that came back
	Loading    int   // loads under way
	Planner    planner.Stats
	Reason     string // why the last load loaded as much as it did
}

// Tiers says what is below the device, the fastest first; nil: nothing. Match.Tiers and Stats.Tiers are in this order.
func (p *Pool[B]) Tiers() (out []tier.Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut() != nil {
		return nil
	}
	for _, t := range p.below.tiers {
		out = append(out, t.Info())
	}
	return out
}

// belowStats are the numbers of an offload, but for what the tiers say.
func belowStats(tiers []tier.Tier, s offload.Stats, bytes int64) ([]TierStats, MoveStats) {
	out := make([]TierStats, len(tiers))
	for i, t := range tiers {
		out[i] = TierStats{Info: t.Info(), Moves: s.Moves.Tiers[i], Tokens: s.Tokens[i]}
	}
	return out, MoveStats{BlockBytes: bytes, Stored: s.Stored, There: s.There, Missed: s.Missed, Waiting: s.Waiting, Loaded: s.Loaded, Loading: s.Loading,
		Planner: s.Decisions, Reason: s.Reason}
}
