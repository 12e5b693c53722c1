package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/load"
)

// Bounds of a page's size, whatever the number of requests.
const (
	chartBins  = 120  // of a time axis
	chartSteps = 200  // of a distribution
	chartDots  = 1000 // requests
)

func (r *loadReport) charts() []chart {
	return []chart{r.distributions(), r.running(), r.firstTokens(), r.hits()}
}

// answered are the samples of requests that succeeded.
func (r *loadReport) answered() (out []*load.Sample) {
	for i := range r.result.Samples {
		if s := &r.result.Samples[i]; s.Kind == "" {
			out = append(out, s)
		}
	}
	return out
}

// polyline is a line of a class through points.
func polyline(class string, x, y func(i int) float64, n int) chartLine {
	var points strings.Builder
	for i := range n {
		fmt.Fprintf(&points, "%g,%g ", x(i), y(i))
	}
	return chartLine{Class: class, Points: strings.TrimSuffix(points.String(), " ")}
}

// distributions shows which share of the requests took no longer than a time.
func (r *loadReport) distributions() chart {
	c := newChart("Times", "as shares of the requests", []series{{"first token", "s0"}, {"per token", "s1"}, {"whole answer", "s2"}})
	c.About = "Share of the requests that took no longer, over the time (on a logarithmic axis)."
	var times [3][]float64
	for _, s := range r.answered() {
		times[0], times[2] = append(times[0], s.TTFT()), append(times[2], s.Latency())
		if t, ok := s.TPOT(); ok {
			times[1] = append(times[1], t)
		}
	}
	x, y := timesAxis(slices.Concat(times[:]...), plotLeft, plotRight), countAxis(1, plotBottom, plotTop)
	c.X, c.Y = x.ticks(seconds), y.ticks(wholePercent)
	for i, all := range times {
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		at := func(i int) int { return i * (len(all) - 1) / chartSteps }
		c.Lines = append(c.Lines, polyline(c.Series[i].Class, func(i int) float64 { return x.at(all[at(i)]) },
			func(i int) float64 { return y.at(float64(at(i)+1) / float64(len(all))) }, chartSteps+1))
	}
	c.Limit = "objective"
	for i, limit := range []float64{r.objective.TTFT.Seconds(), r.objective.TPOT.Seconds()} {
		if limit >= x.low && limit <= x.high {
			c.Lines = append(c.Lines, chartLine{Class: c.Series[i].Class + " goal", Points: fmt.Sprintf("%g,%g %g,%g", x.at(limit), plotTop, x.at(limit), plotBottom)})
		}
	}
	return c
}

// running shows how many requests there were at a time.
func (r *loadReport) running() chart {
	c := newChart("Requests at a time", "over time", []series{{"waiting for the first token", "s0"}, {"being answered", "s1"}})
	c.About = "How many requests were due and had no token yet, and how many had some but not all, over the time of the run."
	t := r.timeline()
	var waiting, answering [chartBins]float64
	for i := range r.result.Samples {
		s := &r.result.Samples[i]
		first := s.First
		if s.Kind != "" {
			first = s.End
		}
		t.add(&waiting, s.Due.Seconds(), first.Seconds())
		t.add(&answering, first.Seconds(), s.End.Seconds())
	}
	y := countAxis(max(slices.Max(waiting[:]), slices.Max(answering[:]), 1), plotBottom, plotTop)
	c.X, c.Y = t.ticks(moment), y.ticks(func(v float64) string { return fmt.Sprintf("%g", v) })
	for i, counts := range []*[chartBins]float64{&waiting, &answering} {
		c.Lines = append(c.Lines, polyline(c.Series[i].Class, t.middle, func(b int) float64 { return y.at(counts[b]) }, chartBins))
	}
	return c
}

// firstTokens shows each request, or some of very many.
func (r *loadReport) firstTokens() chart {
	c := newChart("Time to the first token", "over time", []series{{"answered", "s0"}, {"failed", "s5"}})
	c.About = "Each request by when it was due, on a logarithmic axis; those that failed are at the top."
	if n := len(r.result.Samples); n > chartDots {
		c.About += fmt.Sprintf(" There are dots for %s of %s requests.", grouped(chartDots), grouped(n))
	}
	t := r.timeline()
	var times []float64
	for _, s := range r.answered() {
		times = append(times, s.TTFT())
	}
	y := timesAxis(times, plotBottom, plotTop)
	c.X, c.Y = t.ticks(moment), y.ticks(seconds)
	answered, failed := chartLine{Class: "s0 dots"}, chartLine{Class: "s5 dots"}
	n := len(r.result.Samples)
	for k := range min(n, chartDots) {
		s := &r.result.Samples[k*n/min(n, chartDots)]
		x := t.at(s.Due.Seconds())
		if s.Kind == "" {
			answered.Marks = append(answered.Marks, chartMark{x, y.at(s.TTFT()), fmt.Sprintf("at %s: %s", moment(s.Due.Seconds()), seconds(s.TTFT()))})
		} else {
			failed.Marks = append(failed.Marks, chartMark{x, plotTop, fmt.Sprintf("at %s: %s", moment(s.Due.Seconds()), s.Kind)})
		}
	}
	c.Lines = []chartLine{answered, failed}
	return c
}

// hits shows the server's hit rate and the possible one.
func (r *loadReport) hits() chart {
	c := newChart("Hit rate", "over time", nil)
	c.About = "Share of the prompts' tokens that were cached, of the requests that were due by then, over the time of the run."
	t, y := r.timeline(), countAxis(1, plotBottom, plotTop)
	c.X, c.Y = t.ticks(moment), y.ticks(wholePercent)
	var cached, prompts, shared, units [chartBins]int
	for _, s := range r.answered() {
		b := t.of(s.Due.Seconds())
		cached[b] += max(s.Cached, 0)
		prompts[b] += s.Prompt
		shared[b] += s.Shared
		units[b] += s.Units
	}
	add := func(name, class string, part, all *[chartBins]int) {
		c.Series = append(c.Series, series{name, class})
		soFar, of, shares := 0, 0, [chartBins]float64{}
		for b := range chartBins {
			soFar, of = soFar+part[b], of+all[b]
			shares[b] = float64(soFar) / float64(max(of, 1))
		}
		c.Lines = append(c.Lines, polyline(class, t.middle, func(b int) float64 { return y.at(shares[b]) }, chartBins))
	}
	if r.HitRateKnown {
		add("of the server", "s0", &cached, &prompts)
	}
	add("possible", "bound", &shared, &units)
	return c
}

func wholePercent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
