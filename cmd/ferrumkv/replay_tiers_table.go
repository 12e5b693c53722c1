package main

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

// movedWidth is that of a column of bytes.
const movedWidth = 19

func (t replayTable) tiersHead(w *strings.Builder) error {
	r := t.report
	s := r.setup.Tiers
	block := int64(r.trace.BlockTokens) * s.TokenBytes
	fmt.Fprintf(w, "tiers       %s\n", describeTiers(s))
	fmt.Fprintf(w, "bytes       %s a token, %s a block: loaded/stored\n", byteSize(s.TokenBytes), byteSize(block))
	fmt.Fprintf(w, "alone       the cache without tiers; * is the most hits\n")
	if s.Prefill > 0 {
		fmt.Fprintf(w, "first token mean time/that of the cache alone, and the same of 9 in 10 requests, which wait for no others\n")
		fmt.Fprintf(w, "rates       %s\n", describeRates(s))
	}
	fmt.Fprintf(w, "\n%-9s %11s  %-8s  %8s  %7s  %7s", "capacity", "blocks", "policy", "hits ", "alone", "device")
	for _, name := range tierNames(s) {
		fmt.Fprintf(w, "  %7s  %*s", name, movedWidth, "bytes")
	}
	if s.Prefill > 0 {
		fmt.Fprintf(w, "  %*s  %*s", movedWidth, "first token", movedWidth, "9 in 10")
	}
	_, err := fmt.Fprintln(t.out, w.String())
	return err
}

// tierNames are the tiers' as replay.TierUse has them.
func tierNames(t replay.Tiers) (names []string) {
	if t.Host.Any() {
		names = append(names, "host")
	}
	if t.Disk.Any() {
		names = append(names, "disk")
	}
	return names
}

// tiersRows prints a line for each policy.
func (t replayTable) tiersRows(row []replay.Run) error {
	r := t.report
	block := int64(r.trace.BlockTokens) * r.setup.Tiers.TokenBytes
	var w strings.Builder
	for _, run := range row {
		mark := " "
		if r.best(run, row) {
			mark = "*"
		}
		b := run.Below
		fmt.Fprintf(&w, "%-9s %11s  %-8s  %7s%s  %7s  %7s", run.Capacity, grouped(run.Blocks), run.Policy, percent(r.rate(run)), mark, percent(r.share(b.Alone)), percent(r.share(b.Device)))
		for _, u := range b.Tiers {
			fmt.Fprintf(&w, "  %7s  %*s", percent(r.share(u.Hits)), movedWidth, byteSize(u.Loaded*block)+"/"+byteSize(u.Stored*block))
		}
		if r.setup.Tiers.Prefill > 0 {
			fmt.Fprintf(&w, "  %*s  %*s", movedWidth, seconds(b.With.Mean)+"/"+seconds(b.Without.Mean), movedWidth, seconds(b.With.P90)+"/"+seconds(b.Without.P90))
		}
		w.WriteByte('\n')
	}
	_, err := fmt.Fprint(t.out, w.String())
	return err
}

// aloneHitRates is the chart of the caches without tiers.
func (r *replayReport) aloneHitRates() chart {
	c := r.rates("Hit rate of the cache alone", func(run replay.Run) int { return run.Below.Alone })
	c.About = "The same cache without tiers: what is above it in the chart before came from them."
	return c
}
