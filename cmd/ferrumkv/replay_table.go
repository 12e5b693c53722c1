package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

// replayTable prints a sweep for people, each capacity as soon as it is measured.
type replayTable struct {
	out    io.Writer
	report *replayReport
}

// write receives every run.
func (t replayTable) write(run replay.Run) error {
	switch run.Policy {
	case infinite:
		return t.head()
	case t.report.policies[len(t.report.policies)-1]:
		return t.row()
	}
	return nil
}

func (t replayTable) head() error {
	r, trace := t.report, t.report.trace
	var w strings.Builder
	fmt.Fprintf(&w, "trace       %s\n", trace.Name)
	fmt.Fprintf(&w, "requests    %s\n", grouped(trace.Requests()))
	fmt.Fprintf(&w, "references  %s to blocks of %d tokens, %s different ones\n", grouped(trace.References()), trace.BlockTokens, grouped(trace.Unique()))
	fmt.Fprintf(&w, "infinite    %.2f%% hits, %s: a cache that keeps everything\n", 100*r.rate(r.infinite), grouped(r.infinite.Hits))
	switch {
	case r.setup.Parts.Any():
		return t.partsHead(&w)
	case r.setup.Tiers.Any():
		return t.tiersHead(&w)
	}
	fmt.Fprintf(&w, "%-11s the optimum, which knows the future; * is the best of the others\n\n", replay.Optimum)
	fmt.Fprintf(&w, "%-9s %11s", "capacity", "blocks")
	for _, p := range r.policies {
		fmt.Fprintf(&w, "  %*s ", t.width(p), p)
	}
	_, err := fmt.Fprintln(t.out, strings.TrimRight(w.String(), " "))
	return err
}

// row prints the last one of the report.
func (t replayTable) row() error {
	r := t.report
	row := r.rows[len(r.rows)-1]
	switch {
	case r.setup.Parts.Any():
		return t.partsRows(row)
	case r.setup.Tiers.Any():
		return t.tiersRows(row)
	}
	var w strings.Builder
	fmt.Fprintf(&w, "%-9s %11s", row[0].Capacity, grouped(row[0].Blocks))
	for _, run := range row {
		mark := " "
		if r.best(run, row) {
			mark = "*"
		}
		fmt.Fprintf(&w, "  %*.2f%%%s", t.width(run.Policy)-1, 100*r.rate(run), mark)
	}
	_, err := fmt.Fprintln(t.out, strings.TrimRight(w.String(), " "))
	return err
}

// width is that of a policy's column.
func (t replayTable) width(policy string) int { return max(len(policy), len("100.00%")) }

// grouped is a number with its digits in groups of three: "182,790".
func grouped(n int) string {
	digits := []byte(fmt.Sprint(n))
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = slices.Insert(digits, at, ',')
	}
	return string(digits)
}
