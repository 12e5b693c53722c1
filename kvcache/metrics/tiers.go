package metrics

import (
	"strconv"

	"github.com/ferrumkv/ferrumkv/kvcache"
)

type (
	stats = kvcache.Stats
	tier  = kvcache.TierStats
)

// each reads a metric of each tier, whose names differ in a pool.
func each(read func(t *tier) int64) func(stats) []Sample {
	return func(s stats) (all []Sample) {
		for i := range s.Tiers {
			all = append(all, labelled(read(&s.Tiers[i]), s.Tiers[i].Name))
		}
		return all
	}
}

// tiers are the metrics of what is below the device. Those of vLLM (kv_offload_…) count jobs between a primary tier in host memory and secondary ones
// below it, and there is no such order here: none has its meaning.
func tiers() []Metric[stats] {
	type row = Metric[stats]
	of, counter := []string{"tier"}, CounterType
	return rows(
		row{Name: "tier_info", Unit: "1", Help: "1. The labels are what a tier is: level 0 is asked first.", Labels: []string{"tier", "level", "medium", "shared", "outlives"}, Read: infos},

		// Stats.Tiers[i].Stats, of the tier.
		row{Name: "tier_blocks", Labels: of, Unit: "blocks", Help: "Blocks in a tier.", Read: each(func(t *tier) int64 { return t.Stats.Blocks })},
		row{Name: "tier_used_bytes", Labels: of, Unit: "bytes", Help: "Payloads in a tier.", Read: each(func(t *tier) int64 { return t.Stats.Bytes })},
		row{Name: "tier_capacity_bytes", Labels: of, Unit: "bytes", Help: "The most that payloads may take in a tier.", Read: each(func(t *tier) int64 { return t.Stats.Capacity })},
		row{Name: "tier_quarantined_bytes", Labels: of, Unit: "bytes", Help: "Room of a tier that is not used any more because wrong bytes were read there.", Read: each(func(t *tier) int64 { return t.Stats.QuarantinedCapacity })},
		row{Name: "tier_largest_bytes", Labels: of, Unit: "bytes", Help: "The largest payload that a tier takes; 0: any.", Read: each(func(t *tier) int64 { return t.Largest })},
		row{Name: "tier_queried_blocks", Labels: of, Type: counter, Unit: "blocks", Help: "Blocks that a tier was asked for, by all that use it.", Read: each(func(t *tier) int64 { return t.Stats.Queried })},
		row{Name: "tier_hit_blocks", Labels: of, Type: counter, Unit: "blocks", Help: "Blocks that a tier was asked for and had.", Read: each(func(t *tier) int64 { return t.Stats.Hits })},
		row{Name: "tier_read_bytes", Labels: of, Type: counter, Unit: "bytes", Help: "Payloads that a tier read.", Read: each(func(t *tier) int64 { return t.Stats.Read })},
		row{Name: "tier_written_bytes", Labels: of, Type: counter, Unit: "bytes", Help: "Payloads that a tier wrote.", Read: each(func(t *tier) int64 { return t.Stats.Written })},
		row{Name: "tier_stored_blocks", Labels: of, Type: counter, Unit: "blocks", Help: "Blocks that a tier stored.", Read: each(func(t *tier) int64 { return t.Stats.Stored })},
		row{Name: "tier_declined_blocks", Labels: of, Type: counter, Unit: "blocks", Help: "Blocks that a tier declined.", Read: each(func(t *tier) int64 { return t.Stats.Declined })},
		row{Name: "tier_evicted_blocks", Labels: of, Type: counter, Unit: "blocks", Help: "Blocks that a tier gave up for others.", Read: each(func(t *tier) int64 { return t.Stats.Evicted })},
		row{Name: "tier_evicted_unread_blocks", Labels: of, Type: counter, Unit: "blocks", Help: "Blocks that a tier gave up and that nobody had read.", Read: each(func(t *tier) int64 { return t.Stats.NeverUsed })},
		row{Name: "tier_corrupt_blocks", Labels: of, Type: counter, Unit: "blocks", Help: "Payloads that a tier itself found to differ from what was stored.", Read: each(func(t *tier) int64 { return t.Stats.Corrupt })},
		row{Name: "tier_failures", Labels: of, Type: counter, Unit: "calls", Help: "Calls that a tier itself counted as failed.", Read: each(func(t *tier) int64 { return t.Stats.Failures })},

		// Stats.Tiers[i].Moves, of what it did for this pool.
		row{Name: "tier_prompt_tokens", Labels: of, Type: counter, Unit: "tokens", Help: "Tokens of prompts that sequences got from a tier.", Read: each(func(t *tier) int64 { return t.Tokens })},
		row{Name: "tier_calls", Labels: of, Type: counter, Unit: "calls", Help: "Calls that the pool made to a tier.", Read: each(func(t *tier) int64 { return t.Moves.Calls })},
		row{Name: "tier_calls_seconds", Labels: of, Type: counter, Unit: "seconds", Help: "Time in calls to a tier, of all calls together.", Read: took},
		row{Name: "tier_call_failures", Labels: []string{"tier", "cause"}, Type: counter, Unit: "calls", Help: "Calls to a tier that failed: error and panic, timeout, hung (beyond its grace), count (of blocks, that cannot be), corrupt (payloads).", Read: failures},
		row{Name: "tier_calls_cancelled", Labels: of, Type: counter, Unit: "calls", Help: "Calls to a tier that were cancelled, which are no failures.", Read: each(func(t *tier) int64 { return t.Moves.Cancelled })},
		row{Name: "tier_calls_refused", Labels: of, Type: counter, Unit: "calls", Help: "Calls that were not made because a tier is paused or busy.", Read: each(func(t *tier) int64 { return t.Moves.Refused })},
		row{Name: "tier_pauses", Labels: of, Type: counter, Unit: "pauses", Help: "Pauses in which a tier was not called after failures.", Read: each(func(t *tier) int64 { return t.Moves.Pauses })},
		row{Name: "tier_paused", Labels: of, Unit: "1", Help: "1 while a tier is not called because of failures, else 0.", Read: each(func(t *tier) int64 { return flag(t.Moves.Paused) })},
		row{Name: "tier_calls_hanging", Labels: of, Unit: "calls", Help: "Calls to a tier that hang now.", Read: each(func(t *tier) int64 { return int64(t.Moves.Hanging) })},
		row{Name: "tier_calls_late", Labels: of, Unit: "calls", Help: "Calls to a tier that take long now, those that hang included.", Read: each(func(t *tier) int64 { return int64(t.Moves.Late) })},
		row{Name: "tier_failures_in_a_row", Labels: of, Unit: "calls", Help: "Calls to a tier that failed since one succeeded.", Read: each(func(t *tier) int64 { return int64(t.Moves.ConsecutiveFailures) })},
		row{Name: "tier_moved_blocks", Labels: []string{"tier", "direction"}, Type: counter, Unit: "blocks", Help: "Blocks that the pool put into a tier (down) and got from it (up).",
			Read: directions(func(t *tier) (down, up int64) { return t.Moves.Stored, t.Moves.Loaded })},
		row{Name: "tier_moved_bytes", Labels: []string{"tier", "direction"}, Type: counter, Unit: "bytes", Help: "Payloads that the pool put into a tier (down) and got from it (up).",
			Read: directions(func(t *tier) (down, up int64) { return t.Moves.StoredBytes, t.Moves.LoadedBytes })},
	)
}

func infos(s stats) (all []Sample) {
	for i := range s.Tiers {
		t := &s.Tiers[i]
		all = append(all, labelled(1, t.Name, strconv.Itoa(i), string(t.Medium), strconv.FormatBool(t.Shared), strconv.FormatBool(t.Outlives)))
	}
	return all
}

func took(s stats) (all []Sample) {
	for i := range s.Tiers {
		all = append(all, Sample{Labels: []string{s.Tiers[i].Name}, Value: s.Tiers[i].Moves.Took.Seconds()})
	}
	return all
}

func failures(s stats) (all []Sample) {
	for i := range s.Tiers {
		m, name := &s.Tiers[i].Moves, s.Tiers[i].Name
		all = append(all, labelled(m.Errors, name, "error"), labelled(m.Panics, name, "panic"), labelled(m.Timeouts, name, "timeout"),
			labelled(m.Hung, name, "hung"), labelled(m.Wrong, name, "count"), labelled(m.Corrupt, name, "corrupt"))
	}
	return all
}

func directions(read func(t *tier) (down, up int64)) func(stats) []Sample {
	return func(s stats) (all []Sample) {
		for i := range s.Tiers {
			down, up := read(&s.Tiers[i])
			all = append(all, labelled(down, s.Tiers[i].Name, "down"), labelled(up, s.Tiers[i].Name, "up"))
		}
		return all
	}
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
