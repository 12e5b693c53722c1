package metrics

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Pool is the table of a pool, made anew by each call: a program makes it once.
func Pool() []Metric[kvcache.Stats] {
	return slices.Concat(blocks(), prefixes(), groups(), tiers(), moves())
}

// rows makes the part of a table whose names begin with ferrumkv:, but for those with a prefix of their own.
func rows(all ...Metric[kvcache.Stats]) []Metric[kvcache.Stats] {
	for i := range all {
		if !strings.Contains(all[i].Name, ":") {
			all[i].Name = "ferrumkv:" + all[i].Name
		}
	}
	return all
}

// one reads a metric without labels.
func one[N int | int64](read func(s *kvcache.Stats) N) func(kvcache.Stats) []Sample {
	return func(s kvcache.Stats) []Sample { return []Sample{{Value: float64(read(&s))}} }
}

// seconds reads a duration without labels.
func seconds(read func(s *kvcache.Stats) time.Duration) func(kvcache.Stats) []Sample {
	return func(s kvcache.Stats) []Sample { return []Sample{{Value: read(&s).Seconds()}} }
}

// labelled is a sample with label values.
func labelled[N int | int64](n N, labels ...string) Sample {
	return Sample{Labels: labels, Value: float64(n)}
}

func blocks() []Metric[kvcache.Stats] {
	return rows(
		Metric[stats]{Name: "vllm:kv_cache_usage_perc", Unit: "ratio", Help: "Part of all blocks that sequences and steps hold, 0 to 1. Cached blocks that nobody holds count as free: they can be handed out.",
			Read: func(s stats) []Sample {
				return []Sample{{Value: float64(s.Held) / float64(max(s.Blocks, 1))}}
			}},
		Metric[stats]{Name: "vllm:cache_config_info", Unit: "1", Help: "1. The labels are the tokens of a block and the number of blocks.", Labels: []string{"block_size", "num_gpu_blocks"},
			Read: func(s stats) []Sample {
				return []Sample{labelled(1, strconv.Itoa(s.BlockTokens), strconv.Itoa(s.Blocks))}
			}},
		Metric[stats]{Name: "blocks", Unit: "blocks", Help: "Blocks by state: free have no content, cached have some that is found until they are handed out, held are in use.", Labels: []string{"state"},
			Read: func(s stats) []Sample {
				return []Sample{labelled(s.Free, "free"), labelled(s.Cached, "cached"), labelled(s.Held, "held")}
			}},
		Metric[stats]{Name: "blocks_peak", Unit: "blocks", Help: "Most blocks held at once.", Read: one(func(s *stats) int { return s.Peak })},
		Metric[stats]{Name: "blocks_reserved", Unit: "blocks", Help: "Blocks set aside for sequences, not yet taken.", Read: one(func(s *stats) int { return s.Reserved })},
		Metric[stats]{Name: "blocks_retired", Unit: "references", Help: "References to held blocks that are given back when the device has finished its steps.", Read: one(func(s *stats) int { return s.Retired })},
		Metric[stats]{Name: "blocks_logical", Unit: "blocks", Help: "Blocks of all sequences, a shared block once for each owner.", Read: one(func(s *stats) int { return s.Logical })},
		Metric[stats]{Name: "block_bytes", Unit: "bytes", Help: "Bytes of a block on the device, in all layers.", Read: one(func(s *stats) int64 { return s.BytesPerBlock })},
		Metric[stats]{Name: "held_bytes", Unit: "bytes", Help: "Bytes of the held blocks.", Read: one(func(s *stats) int64 { return s.BytesHeld })},
		Metric[stats]{Name: "shared_bytes", Unit: "bytes", Help: "Bytes that sharing of blocks saves now.", Read: one(func(s *stats) int64 { return s.BytesShared })},
		Metric[stats]{Name: "sequences", Unit: "sequences", Help: "Open sequences, suspended ones included.", Read: one(func(s *stats) int { return s.Sequences })},
		Metric[stats]{Name: "sequences_suspended", Unit: "sequences", Help: "Sequences that are suspended.", Read: one(func(s *stats) int { return s.Suspended })},
		Metric[stats]{Name: "suspended_bytes", Unit: "bytes", Help: "Host memory of suspended sequences.", Read: one(func(s *stats) int64 { return s.BytesAway })},
	)
}

func prefixes() []Metric[kvcache.Stats] {
	return rows(
		Metric[stats]{Name: "vllm:prefix_cache_queries", Type: CounterType, Unit: "tokens", Help: "Tokens of prompts that were looked up in the prefix tree, the last one of each included, which is always computed.",
			Read: one(func(s *stats) int { return s.Prefix.TokensQueried + s.Prefix.Lookups })}, // TokensQueried is without it
		Metric[stats]{Name: "vllm:prefix_cache_hits", Type: CounterType, Unit: "tokens", Help: "Tokens of prompts that were found in the prefix tree, on the device.",
			Read: one(func(s *stats) int { return s.Prefix.TokensHit })},
		Metric[stats]{Name: "prefix_lookups", Type: CounterType, Unit: "lookups", Labels: []string{"found", "reason"},
			Help: "Lookups of prompts, by what was found of them and why there was no more.", Read: lookups},
		Metric[stats]{Name: "prefix_blocks", Unit: "blocks", Help: "Entries of the prefix tree by state: cached have no owner, held do, offloaded are no longer on the device.", Labels: []string{"state"},
			Read: func(s stats) []Sample {
				p := &s.Prefix
				return []Sample{labelled(p.Cached, "cached"), labelled(p.Held, "held"), labelled(p.Offloaded, "offloaded")}
			}},
		Metric[stats]{Name: "prefix_nodes", Unit: "nodes", Help: "Nodes of the prefix tree.", Read: one(func(s *stats) int { return s.Prefix.Nodes })},
		Metric[stats]{Name: "prefix_scopes", Unit: "scopes", Help: "Salts and adapters that have blocks in the prefix tree.", Read: one(func(s *stats) int { return s.Prefix.Roots })},
		Metric[stats]{Name: "prefix_pinned_blocks", Unit: "blocks", Help: "Blocks that leases own, one once for each lease.", Read: one(func(s *stats) int { return s.Prefix.Pinned })},
		Metric[stats]{Name: "prefix_evicted_blocks", Type: CounterType, Unit: "blocks", Help: "Blocks evicted from the prefix tree, demoted ones included.", Read: one(func(s *stats) int { return s.Prefix.Evicted })},
		Metric[stats]{Name: "prefix_demoted_blocks", Type: CounterType, Unit: "blocks", Help: "Evicted blocks whose entries stay, offloaded.", Read: one(func(s *stats) int { return s.Prefix.Demoted })},
		Metric[stats]{Name: "prefix_promoted_blocks", Type: CounterType, Unit: "blocks", Help: "Offloaded entries that came back to the device.", Read: one(func(s *stats) int { return s.Prefix.Promoted })},
	)
}

// lookups are those that found everything, part of a prompt, or nothing. Their sum is Stats.Lookups.
func lookups(s kvcache.Stats) []Sample {
	p := &s.Prefix
	all := []Sample{labelled(p.Hits, "all", reason(prefix.Complete))}
	for r := int(prefix.Complete) + 1; r < len(p.Misses); r++ {
		all = append(all, labelled(p.PartialReasons[r], "part", reason(prefix.MissReason(r))), labelled(p.Misses[r], "nothing", reason(prefix.MissReason(r))))
	}
	return all
}

func reason(r prefix.MissReason) string { return strings.ReplaceAll(r.String(), " ", "_") }

func groups() []Metric[kvcache.Stats] {
	group := func(read func(g *kvcache.GroupStats) int) func(kvcache.Stats) []Sample {
		return func(s kvcache.Stats) (all []Sample) {
			for i := range s.Groups {
				g := &s.Groups[i]
				all = append(all, labelled(read(g), strconv.Itoa(g.Group), g.Kind.String()))
			}
			return all
		}
	}
	names := []string{"group", "kind"}
	return rows(
		Metric[kvcache.Stats]{Name: "group_blocks_logical", Unit: "blocks", Labels: names, Help: "Blocks of all sequences in a group of layers, a shared block once for each owner.",
			Read: group(func(g *kvcache.GroupStats) int { return g.Logical })},
		Metric[kvcache.Stats]{Name: "group_blocks_findable", Unit: "blocks", Labels: names, Help: "Blocks of a group of layers that are with entries of the prefix tree.",
			Read: group(func(g *kvcache.GroupStats) int { return g.Findable })},
	)
}
