package main

import (
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/svgplot"
)

// timeline is the time of the run in bins.
type timeline struct {
	axis
	bin float64 // seconds
}

func (r *loadReport) timeline() timeline {
	total := max(r.result.Elapsed.Seconds(), 1e-3)
	a := countAxis(total, plotLeft, plotRight)
	a.high, a.place = total, svgplot.Scale(func(v float64) float64 { return v }, 0, total, plotLeft, plotRight)
	a.marks = slices.DeleteFunc(a.marks, func(v float64) bool { return v > total })
	return timeline{a, total / chartBins}
}

// of is the bin of a moment.
func (t timeline) of(seconds float64) int {
	return min(max(int(seconds/t.bin), 0), chartBins-1)
}

// middle is the place of a bin.
func (t timeline) middle(bin int) float64 { return t.at((float64(bin) + 0.5) * t.bin) }

// add adds to each bin how much of it a span of time fills.
func (t timeline) add(to *[chartBins]float64, from, until float64) {
	for b := t.of(from); b <= t.of(until); b++ {
		begins := float64(b) * t.bin
		to[b] += max(min(until, begins+t.bin)-max(from, begins), 0) / t.bin
	}
}

// moment is a time since a run began, such as 1m where a Duration says 1m0s.
func moment(seconds float64) string {
	text := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
	text = strings.Replace(text, "m0s", "m", 1)
	return strings.Replace(text, "h0m", "h", 1)
}
