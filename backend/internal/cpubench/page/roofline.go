package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The drawing, in units of its own; what shows it scales it.
const (
	plotWidth, plotHeight = 860.0, 500.0
	plotLeft, plotRight   = 76.0, 836.0
	plotTop, plotBottom   = 66.0, 442.0
)

// paints is the colour of each storage type, in the order of the legend.
var paints = []struct{ name, colour string }{
	{"f32", "#0072b2"}, {"f16", "#d55e00"}, {"bf16", "#e69f00"}, {"fp8e4m3", "#cc79a7"},
	{"int8", "#009e73"}, {"int8+int8query", "#56b4e9"}, {"int4", "#8b5cf6"}, {"int4+int8query", "#a16207"},
}

// plotStyle has its colours twice, for what shows the plot on a dark page.
const plotStyle = `<style>
text { font: 12px Helvetica, Arial, sans-serif; fill: #59636e; }
.title { font-size: 15px; font-weight: bold; fill: #1f2328; }
.grid { stroke: #d1d9e0; } .roof { stroke: #1f2328; stroke-width: 2; fill: none; } .paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
text { fill: #9198a1; } .title { fill: #f0f6fc; }
.grid { stroke: #3d444d; } .roof { stroke: #f0f6fc; } .paper { fill: #0d1117; }
}
</style>
`

// roofline draws what attention reaches over its intensity, below the most that memory and
// multiplication allow (Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009).
type roofline struct {
	strings.Builder
	bandwidth, peak float64 // 1e9 bytes and operations a second
	x, y            func(float64) float64
}

// roofline is the plot for a number of threads. It is empty where a limit was not measured.
func (r *run) roofline(threads string) string {
	read, fma := r.all("limit", "read", "threads="+threads, r.best()), r.all("limit", "fma", "threads="+threads, r.best())
	if read == nil || fma == nil {
		return ""
	}
	p := &roofline{bandwidth: read[0].metrics["GB/s"], peak: fma[0].metrics["GFLOP/s"]}
	dots := slices.DeleteFunc(append(r.plain(false), r.all("prefill")...), func(t trial) bool { return !t.is("threads="+threads, r.best()) })
	p.head(threads)
	p.axes(dots)
	p.roof()
	for _, t := range dots {
		p.dot(t)
	}
	p.legend()
	p.WriteString("</svg>\n")
	return p.String()
}

func (p *roofline) head(threads string) {
	title := "Attention on all " + threads + " threads"
	if threads == "1" {
		title = "Attention on one thread"
	}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s: operations a second over operations per byte">`+"\n%s", plotWidth, plotHeight, title, plotStyle)
	fmt.Fprintf(p, `<rect class="paper" width="%g" height="%g"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(p, `<text class="title" x="%g" y="26">%s, below what memory and multiplication allow</text>`+"\n", plotLeft, title)
}

// performance is the operations a second of a trial, in 1e9.
func performance(t trial) float64 {
	if v, ok := t.metrics["GFLOP/s"]; ok {
		return v
	}
	return t.metrics["GB/s"] * t.metrics["flop/B"]
}

// axes chooses the scales, both logarithmic, and draws their lines.
func (p *roofline) axes(dots []trial) {
	low, right := p.bandwidth, 16*p.peak/p.bandwidth
	for _, t := range dots {
		low, right = min(low, performance(t)), max(right, 2*t.metrics["flop/B"])
	}
	p.x, p.y = logarithmic(1, right, plotLeft, plotRight), logarithmic(low/1.5, p.peak*1.6, plotBottom, plotTop)
	for v := 1.0; v <= right; v *= 4 {
		fmt.Fprintf(p, `<path class="grid" d="M%.1f %g V%g"/><text x="%.1f" y="%g" text-anchor="middle">%g</text>`+"\n", p.x(v), plotTop, plotBottom, p.x(v), plotBottom+18, v)
	}
	for v := math.Exp2(math.Ceil(math.Log2(low / 1.5))); v <= p.peak*1.6; v *= 2 {
		fmt.Fprintf(p, `<path class="grid" d="M%g %.1f H%g"/><text x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n", plotLeft, p.y(v), plotRight, plotLeft-8, p.y(v)+4, v)
	}
	fmt.Fprintf(p, `<text x="%g" y="%g" text-anchor="middle">floating point operations for each byte of keys and values</text>`+"\n", (plotLeft+plotRight)/2, plotBottom+42)
	fmt.Fprintf(p, `<text transform="translate(20 %g) rotate(-90)" text-anchor="middle">GFLOP/s</text>`+"\n", (plotTop+plotBottom)/2)
}

// logarithmic maps values from low to high on a part of the drawing.
func logarithmic(low, high, from, to float64) func(float64) float64 {
	return func(v float64) float64 { return from + (to-from)*math.Log(v/low)/math.Log(high/low) }
}

// roof draws min(peak, bandwidth × intensity).
func (p *roofline) roof() {
	ridge := p.peak / p.bandwidth
	fmt.Fprintf(p, `<path class="roof" d="M%.1f %.1f L%.1f %.1f H%g"/>`+"\n", p.x(1), p.y(p.bandwidth), p.x(ridge), p.y(p.peak), plotRight)
	x, y := (p.x(1)+p.x(ridge))/2, (p.y(p.bandwidth)+p.y(p.peak))/2
	slope := math.Atan2(p.y(p.peak)-p.y(p.bandwidth), p.x(ridge)-p.x(1)) * 180 / math.Pi
	fmt.Fprintf(p, `<text transform="translate(%.1f %.1f) rotate(%.1f) translate(0 -8)" text-anchor="middle">reading memory: %.3g GB/s</text>`+"\n", x, y, slope, p.bandwidth)
	fmt.Fprintf(p, `<text x="%g" y="%.1f" text-anchor="end">multiplying: %.3g GFLOP/s</text>`+"\n", plotRight-6, p.y(p.peak)-8, p.peak)
}

// dot draws a trial: a circle where the cache is contiguous, a square where it is paged.
func (p *roofline) dot(t trial) {
	i := slices.IndexFunc(paints, func(q struct{ name, colour string }) bool { return q.name == t.parts[1] })
	if i < 0 {
		return
	}
	x, y := p.x(t.metrics["flop/B"]), p.y(performance(t))
	about := fmt.Sprintf("<title>%s: %.3g GFLOP/s, %s of its limit</title>", html.EscapeString(strings.Join(t.parts[:6], ", ")), performance(t), fraction(t))
	if t.is("contiguous") {
		fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s" fill-opacity="0.75">%s</circle>`+"\n", x, y, paints[i].colour, about)
	} else {
		fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="8" height="8" fill="%s" fill-opacity="0.75">%s</rect>`+"\n", x-4, y-4, paints[i].colour, about)
	}
}

// legend names colours and shapes, where the roof leaves room.
func (p *roofline) legend() {
	const left, line = (plotLeft + plotRight) / 2, 18.0
	y := plotBottom - line*float64(len(paints)+2)
	for _, q := range paints {
		fmt.Fprintf(p, `<circle cx="%g" cy="%g" r="4.5" fill="%s"/><text x="%g" y="%g">%s</text>`+"\n", left, y, q.colour, left+12, y+4, q.name)
		y += line
	}
	fmt.Fprintf(p, `<text x="%g" y="%g">● contiguous  ■ blocks of 16</text>`+"\n", left-4, y+4)
}
