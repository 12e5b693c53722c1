package main

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

// pageParts is what the page shows of layers that do not keep everything.
type pageParts struct {
	Model, Retention string
	Names            []string // of the kinds of parts
	Rows             []pageUses
}

// pageUses is a run in the table of blocks.
type pageUses struct {
	Capacity, Policy, Full string
	Blocks                 []string // held and cached of each kind
}

func (r *replayReport) pageParts() *pageParts {
	if !r.setup.Parts.Any() {
		return nil
	}
	p := &pageParts{Model: describeParts(r.setup.Parts), Retention: fmt.Sprintf("%s; evicted first above %d%% of the blocks", describeRetention(r.setup.Parts), r.setup.Parts.Share)}
	kinds := partColumns(r.setup.Parts)
	for _, kind := range kinds {
		p.Names = append(p.Names, useNames[kind])
	}
	for _, row := range r.rows {
		for _, run := range row {
			line := pageUses{Capacity: run.Capacity.String(), Policy: run.Policy, Full: percent(r.share(run.Full))}
			for _, kind := range kinds {
				line.Blocks = append(line.Blocks, amount(run.Uses[kind].Held), amount(run.Uses[kind].Cached))
			}
			p.Rows = append(p.Rows, line)
		}
	}
	return p
}

// fullHitRates shows what is lost where windows and states are missing.
func (r *replayReport) fullHitRates() chart {
	c := r.rates("Hit rate of full attention alone", func(run replay.Run) int { return run.Full })
	c.About = "What would have been hits if only the blocks of full attention were needed: what is above the chart before is lost since blocks of a window, or a state, are missing."
	return c
}
