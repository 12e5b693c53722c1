package main

import (
	"context"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

// infinite names the cache that keeps everything among the policies.
const infinite = "infinite"

// replayReport is a sweep: a row for each capacity, with a run for each policy, the
// optimum at the end; with parts or tiers there is none. Only lines of JSON, which do not compare, do without it.
type replayReport struct {
	trace      *replay.Trace
	capacities []replay.Capacity
	policies   []string
	setup      replay.Setup
	infinite   replay.Run
	rows       [][]replay.Run
}

func newReplayReport(t *replay.Trace, capacities []replay.Capacity, policies []string, setup replay.Setup) *replayReport {
	return &replayReport{trace: t, capacities: capacities, policies: policies, setup: setup,
		infinite: replay.Run{Policy: infinite, Blocks: setup.Parts.All(t), Hits: t.InfiniteHits(), Full: t.InfiniteHits()}}
}

// measure replays, and shows each run as it ends, the infinite cache first.
func (r *replayReport) measure(ctx context.Context, bar *progressBar, show func(replay.Run) error) error {
	tell := func(run replay.Run) error {
		bar.line.clear()
		return show(run)
	}
	if err := tell(r.infinite); err != nil {
		return err
	}
	bar.total = r.trace.Requests() * len(r.capacities) * len(r.policies)
	return r.trace.Sweep(ctx, r.capacities, r.policies, r.setup, bar.step, func(run replay.Run) error {
		if run.Policy == r.policies[0] {
			r.rows = append(r.rows, nil)
		}
		last := &r.rows[len(r.rows)-1]
		*last = append(*last, run)
		return tell(run)
	})
}

// rate is the share of the references that were hits.
func (r *replayReport) rate(run replay.Run) float64 { return r.share(run.Hits) }

// share is n references as a part of all.
func (r *replayReport) share(n int) float64 { return float64(n) / float64(r.trace.References()) }

// best reports whether run has the most hits of its row, the optimum's aside.
func (r *replayReport) best(run replay.Run, row []replay.Run) bool {
	if run.Policy == replay.Optimum {
		return false
	}
	for _, other := range row {
		if other.Policy != replay.Optimum && other.Hits > run.Hits {
			return false
		}
	}
	return true
}

// replayRow is a run as --json prints it.
type replayRow struct {
	Trace      string  `json:"trace"`
	Policy     string  `json:"policy"`
	Capacity   int     `json:"capacity"` // blocks
	Asked      string  `json:"asked"`    // as the flag says it
	Unique     int     `json:"unique"`   // different blocks of the trace
	References int     `json:"references"`
	Hits       int     `json:"hits"`
	HitRate    float64 `json:"hit_rate"`
	Seconds    float64 `json:"seconds"` // of the replay; infinite is counted without one
	*partsRow
	*replayTiersRow
}

func (r *replayReport) row(run replay.Run) replayRow {
	return replayRow{Trace: r.trace.Name, Policy: run.Policy, Capacity: run.Blocks, Asked: run.Capacity.String(), Unique: r.trace.Unique(),
		References: r.trace.References(), Hits: run.Hits, HitRate: r.rate(run), Seconds: run.Seconds, partsRow: newPartsRow(r.setup.Parts, run),
		replayTiersRow: newReplayTiersRow(r.setup.Tiers, r.trace.BlockTokens, run)}
}
