package main

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

// useNames are headings, by kind of part.
var useNames = [...]string{replay.FullParts: "full", replay.WindowParts: "windows", replay.StateParts: "states"}

// Widths of the columns of blocks.
const heldWidth, cachedWidth = 15, 17

func (t replayTable) partsHead(w *strings.Builder) error {
	p := t.report.setup.Parts
	fmt.Fprintf(w, "parts       %s; a block of the capacity is one of any part\n", describeParts(p))
	fmt.Fprintf(w, "retention   %s; evicted first above %d%% of the blocks\n", describeRetention(p), p.Share)
	fmt.Fprintf(w, "full alone  hits if only blocks of full attention were needed; * is the most hits\n")
	fmt.Fprintf(w, "blocks      mean/peak, held by a request while it is computed and cached between requests\n\n")
	fmt.Fprintf(w, "%-9s %11s  %-8s  %8s  %10s", "capacity", "blocks", "policy", "hits ", "full alone")
	for _, kind := range partColumns(p) {
		fmt.Fprintf(w, "  %*s  %*s", heldWidth, useNames[kind]+" held", cachedWidth, "cached")
	}
	_, err := fmt.Fprintln(t.out, w.String())
	return err
}

// partsRows prints a line for each policy.
func (t replayTable) partsRows(row []replay.Run) error {
	r := t.report
	var w strings.Builder
	for _, run := range row {
		mark := " "
		if r.best(run, row) {
			mark = "*"
		}
		fmt.Fprintf(&w, "%-9s %11s  %-8s  %7s%s  %10s", run.Capacity, grouped(run.Blocks), run.Policy, percent(r.rate(run)), mark, percent(r.share(run.Full)))
		for _, kind := range partColumns(r.setup.Parts) {
			u := run.Uses[kind]
			fmt.Fprintf(&w, "  %*s  %*s", heldWidth, amount(u.Held), cachedWidth, amount(u.Cached))
		}
		w.WriteByte('\n')
	}
	_, err := fmt.Fprint(t.out, w.String())
	return err
}
