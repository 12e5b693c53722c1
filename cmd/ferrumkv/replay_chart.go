package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

// The drawing of a chart, in units of its own; the page scales it.
const (
	chartWidth, chartHeight = 880.0, 390.0
	plotLeft, plotRight     = 60.0, 840.0
	plotTop, plotBottom     = 16.0, 336.0
	plotWidth, plotHeight   = plotRight - plotLeft, plotBottom - plotTop
	minGap                  = 52.0 // between the labels of two capacities
	gridLines               = 5
)

// chart is values over something, such as the hit rate over the capacity, with a line for each of a series.
type chart struct {
	Title, About, Over  string
	Series              []series
	Limit               string // name of a line across, if there is one
	Width, Height       float64
	Left, Right, Bottom float64
	X, Y                []tick
	Lines               []chartLine
}

// tick is a place on an axis and what stands there, in one line or two.
type tick struct {
	At          float64
	Label, More string
}

type chartLine struct {
	Class  string
	Points string // of the polyline
	Marks  []chartMark
}

// chartMark is a measured point; a browser shows the text of the one pointed at.
type chartMark struct {
	X, Y float64
	Text string
}

func (r *replayReport) hitRates() chart {
	c := r.rates("Hit rate", func(run replay.Run) int { return run.Hits })
	c.About = "Share of the blocks named by prompts that were cached, over the capacity in blocks (on a logarithmic axis). Where lines meet, the first policy is on top."
	return c
}

// rates draws a share of the references under that of the infinite cache.
func (r *replayReport) rates(title string, hits func(replay.Run) int) chart {
	top := r.rate(r.infinite)
	c := r.chart(title, top, func(run replay.Run, _ []replay.Run) float64 { return r.share(hits(run)) })
	c.Limit = infinite
	y := c.y(top, axisTop(top))
	ends := fmt.Sprintf("%g,%.1f %g,%.1f", plotLeft, y, plotRight, y)
	c.Lines = slices.Insert(c.Lines, 0, chartLine{Class: "limit", Points: ends})
	return c
}

// ofOptimum shows how far the policies are from what is possible.
func (r *replayReport) ofOptimum() chart {
	c := r.chart("Share of the optimum", 1, func(run replay.Run, row []replay.Run) float64 {
		best := row[len(row)-1].Hits
		if best == 0 {
			return 1 // there is nothing to be had
		}
		return float64(run.Hits) / float64(best)
	})
	c.About = "Hits as a share of those of " + replay.Optimum + " with the same capacity."
	return c
}

// newChart is a chart without lines.
func newChart(title, over string, of []series) chart {
	return chart{Title: title, Over: over, Series: of, Width: chartWidth, Height: chartHeight, Left: plotLeft, Right: plotRight, Bottom: plotBottom}
}

// chart draws value, which is at most top, of every run of every row.
func (r *replayReport) chart(title string, top float64, value func(replay.Run, []replay.Run) float64) chart {
	c := newChart(title, "over capacity, by policy", r.series())
	rows := slices.Clone(r.rows)
	slices.SortStableFunc(rows, func(a, b []replay.Run) int { return cmp.Compare(a[0].Blocks, b[0].Blocks) })
	place := logScale(rows[0][0].Blocks, rows[len(rows)-1][0].Blocks)
	last := math.Inf(-1)
	for _, row := range rows {
		x := place(row[0].Blocks)
		if x-last >= minGap { // pointing at others tells them apart
			c.X = append(c.X, tick{x, row[0].Capacity.String(), grouped(row[0].Blocks)})
			last = x
		}
	}
	full := axisTop(top)
	for i := range gridLines + 1 {
		v := full * float64(i) / gridLines
		c.Y = append(c.Y, tick{At: c.y(v, full), Label: fmt.Sprintf("%.3g%%", 100*v)})
	}
	for i, s := range r.series() {
		line := chartLine{Class: s.Class}
		var points []string
		for _, row := range rows {
			run := row[i]
			v := value(run, row)
			x, y := place(run.Blocks), c.y(v, full)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
			text := fmt.Sprintf("%s at %s (%s blocks): %s", s.Name, run.Capacity, grouped(run.Blocks), percent(v))
			line.Marks = append(line.Marks, chartMark{x, y, text})
		}
		line.Points = strings.Join(points, " ")
		c.Lines = append(c.Lines, line)
	}
	slices.Reverse(c.Lines) // the first policy, drawn last, lies on top
	return c
}

// logScale places capacities from low to high on the width of a plot.
func logScale(low, high int) func(blocks int) float64 {
	if low == high {
		return func(int) float64 { return plotLeft + plotWidth/2 }
	}
	return func(blocks int) float64 {
		share := math.Log(float64(blocks)/float64(low)) / math.Log(float64(high)/float64(low))
		return tenth(plotLeft + plotWidth*share)
	}
}

// y is the height of a value on an axis up to full.
func (c chart) y(value, full float64) float64 { return tenth(plotBottom - plotHeight*value/full) }

// tenth rounds: a drawing needs no more.
func tenth(x float64) float64 { return math.Round(10*x) / 10 }

// axisTop is a round share that is not below value: gridLines divide it well.
func axisTop(value float64) float64 {
	for _, top := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.4, 0.5, 0.75} {
		if value <= top {
			return top
		}
	}
	return 1
}
