package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/svgplot"
)

// paints is the colour of each storage type.
var paints = map[string]string{
	"f32": "#0072b2", "f16": "#d55e00", "bf16": "#e69f00", "fp8e4m3": "#cc79a7",
	"int8": "#009e73", "int8+int8query": "#56b4e9", "int4": "#8b5cf6", "int4+int8query": "#a16207",
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
	svgplot.Plot
	title     string
	unit      string  // of performance
	each      float64 // 1e9 operations a second of one of it
	bandwidth float64 // GB/s
	peak      float64 // in unit
	types     []string
}

// draw is the plot of some trials, each named by all parts of its name.
func (p *roofline) draw(dots []trial) string {
	p.Plot = svgplot.Plot{Width: 860, Height: 500, Left: 76, Right: 836, Top: 66, Bottom: 442}
	p.Begin(p.title+", below what memory and multiplication allow", p.title+": operations a second over operations per byte", plotStyle)
	p.axes(dots)
	p.roof()
	for _, t := range dots {
		p.dot(t)
	}
	p.legend()
	return p.End()
}

// performance is the operations a second of a trial.
func (p *roofline) performance(t trial) float64 {
	if v, ok := t.metrics[p.unit]; ok {
		return v
	}
	return t.metrics["GB/s"] * t.metrics["flop/B"] / p.each
}

// slope is the operations a second that memory allows where one is done for each byte.
func (p *roofline) slope() float64 { return p.bandwidth / p.each }

// axes chooses the scales, both logarithmic, and draws their lines.
func (p *roofline) axes(dots []trial) {
	low, right := p.slope(), 16*p.peak/p.slope()
	for _, t := range dots {
		low, right = min(low, p.performance(t)), max(right, 2*t.metrics["flop/B"])
	}
	p.X, p.Y = svgplot.Scale(math.Log, 1, right, p.Left, p.Right), svgplot.Scale(math.Log, low/1.5, p.peak*1.6, p.Bottom, p.Top)
	for v := 1.0; v <= right; v *= 4 {
		p.Column(v, fmt.Sprint(v))
	}
	for v := math.Exp2(math.Ceil(math.Log2(low / 1.5))); v <= p.peak*1.6; v *= 2 {
		p.Row(v, "grid", fmt.Sprint(v))
	}
	p.Axes("floating point operations for each byte of keys and values", p.unit)
}

// roof draws min(peak, bandwidth × intensity).
func (p *roofline) roof() {
	ridge := p.peak / p.slope()
	fmt.Fprintf(p, `<path class="roof" d="M%.1f %.1f L%.1f %.1f H%g"/>`+"\n", p.X(1), p.Y(p.slope()), p.X(ridge), p.Y(p.peak), p.Right)
	x, y := (p.X(1)+p.X(ridge))/2, (p.Y(p.slope())+p.Y(p.peak))/2
	angle := math.Atan2(p.Y(p.peak)-p.Y(p.slope()), p.X(ridge)-p.X(1)) * 180 / math.Pi
	fmt.Fprintf(p, `<text transform="translate(%.1f %.1f) rotate(%.1f) translate(0 -8)" text-anchor="middle">reading memory: %s GB/s</text>`+"\n", x, y, angle, short(p.bandwidth))
	fmt.Fprintf(p, `<text x="%g" y="%.1f" text-anchor="end">multiplying: %s %s</text>`+"\n", p.Right-6, p.Y(p.peak)-8, short(p.peak), p.unit)
}

// dot draws a trial: a circle where the cache is contiguous, a square where it is paged.
func (p *roofline) dot(t trial) {
	if !slices.Contains(p.types, t.stored()) {
		return
	}
	colour := paints[t.stored()]
	x, y := p.X(t.metrics["flop/B"]), p.Y(p.performance(t))
	about := fmt.Sprintf("<title>%s: %s %s, %s of its limit</title>", html.EscapeString(strings.Join(t.parts, ", ")), short(p.performance(t)), p.unit, fraction(t))
	if t.is("contiguous") {
		fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s" fill-opacity="0.75">%s</circle>`+"\n", x, y, colour, about)
	} else {
		fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="8" height="8" fill="%s" fill-opacity="0.75">%s</rect>`+"\n", x-4, y-4, colour, about)
	}
}

// legend names colours and shapes, where the roof leaves room.
func (p *roofline) legend() {
	const line = 18.0
	left := (p.Left + p.Right) / 2
	y := p.Bottom - line*float64(len(p.types)+2)
	for _, name := range p.types {
		fmt.Fprintf(p, `<circle cx="%g" cy="%g" r="4.5" fill="%s"/><text x="%g" y="%g">%s</text>`+"\n", left, y, paints[name], left+12, y+4, name)
		y += line
	}
	fmt.Fprintf(p, `<text x="%g" y="%g">● contiguous  ■ blocks of 16</text>`+"\n", left-4, y+4)
}
