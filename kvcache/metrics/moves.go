package metrics

import (
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// moves are the metrics of what goes from the device to tiers and back, and of what is decided about it. There are none without tiers.
func moves() []Metric[stats] {
	type row = Metric[stats]
	all := rows(
		row{Name: "moves_block_bytes", Unit: "bytes", Help: "Bytes of a block, as tiers have it.", Read: one(func(s *stats) int64 { return s.Moves.BlockBytes })},
		row{Name: "moves_blocks", Labels: []string{"result"}, Type: CounterType, Unit: "blocks", Help: "Blocks on their way from the device to tiers: stored, there already, or missed, because they left the device before or no tier took them.",
			Read: func(s stats) []Sample {
				m := &s.Moves
				return []Sample{labelled(m.Stored, "stored"), labelled(m.There, "there"), labelled(m.Missed, "missed")}
			}},
		row{Name: "moves_waiting_blocks", Unit: "blocks", Help: "Blocks that are written, but not yet given to a tier.", Read: one(func(s *stats) int { return s.Moves.Waiting })},
		row{Name: "moves_loaded_blocks", Type: CounterType, Unit: "blocks", Help: "Blocks that came back from tiers.", Read: one(func(s *stats) int64 { return s.Moves.Loaded })},
		row{Name: "moves_loads", Unit: "loads", Help: "Loads under way.", Read: one(func(s *stats) int { return s.Moves.Loading })},
		row{Name: "planner_decisions", Labels: []string{"choice"}, Type: CounterType, Unit: "prompts", Help: "Prompts that tiers had a part of, by what was chosen first: compute all, load all, load a prefix, or compute and load until they meet.",
			Read: func(s stats) (all []Sample) {
				for i, n := range s.Moves.Planner.Decisions {
					all = append(all, labelled(n, planner.Choice(i).String()))
				}
				return all
			}},
		row{Name: "planner_probes", Type: CounterType, Unit: "loads", Help: "Loads to learn how fast a tier is.", Read: one(func(s *stats) int64 { return s.Moves.Planner.Probes })},
		row{Name: "planner_given_up", Type: CounterType, Unit: "loads", Help: "Loads that took longer than they were waited for.", Read: one(func(s *stats) int64 { return s.Moves.Planner.GivenUp })},
		row{Name: "planner_regret_seconds", Type: CounterType, Unit: "seconds", Help: "Time by which prompts took longer than computing all of them would have.", Read: seconds(func(s *stats) time.Duration { return s.Moves.Planner.Regret })},
		row{Name: "planner_saved_seconds", Type: CounterType, Unit: "seconds", Help: "Time by which other prompts took less.", Read: seconds(func(s *stats) time.Duration { return s.Moves.Planner.Saved })},
	)
	for i := range all {
		read := all[i].Read
		all[i].Read = func(s stats) []Sample {
			if len(s.Tiers) == 0 {
				return nil
			}
			return read(s)
		}
	}
	return all
}
