package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/quality"
	"github.com/ferrumkv/ferrumkv/cmd/internal/svgplot"
)

const lineHeight, letterWidth = 13.0, 6.7 // of labels, about

// linearLoss is where the axis of losses turns from linear, around 0, to logarithmic: losses
// below it are noise, and some are negative.
const linearLoss = 0.001

// qualityStyle has its colours twice, for what shows the plot on a dark page.
const qualityStyle = `<style>
text { font: 12px Helvetica, Arial, sans-serif; fill: #59636e; }
.title { font-size: 15px; font-weight: bold; }
.title, .label { fill: #1f2328; }
.grid { stroke: #d1d9e0; } .zero, .lead { stroke: #59636e; } .lead { stroke-width: 0.7; }
.paper { fill: #ffffff; } .format { fill: #0a66c2; } .policy { fill: #c2410c; }
@media (prefers-color-scheme: dark) {
text { fill: #9198a1; } .title, .label { fill: #f0f6fc; }
.grid { stroke: #3d444d; } .zero, .lead { stroke: #9198a1; }
.paper { fill: #0d1117; } .format { fill: #6cb6ff; } .policy { fill: #f69d50; }
}
</style>
`

// qualityChart draws loss over bytes.
type qualityChart struct {
	svgplot.Plot
	marks []qualityMark
	taken []box // by marks and labels
}

// qualityMark is a row, or several at one place.
type qualityMark struct {
	x, y        float64
	name, about string
	policy      bool
}

// box is a part of the drawing.
type box struct{ left, top, right, bottom float64 }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// draw writes the plot of all rows to a file.
func (r *qualityReport) draw(file string) error {
	c := &qualityChart{Plot: svgplot.Plot{Width: 860, Height: 520, Left: 76, Right: 836, Top: 66, Bottom: 462}}
	c.Begin("What formats and policies cost: "+r.model, "Loss of each format and policy over the bytes of its cache", qualityStyle)
	c.legend()
	c.axes(r)
	for _, s := range r.rows {
		c.add(r, s)
	}
	for _, m := range c.marks {
		c.mark(m)
	}
	return os.WriteFile(file, []byte(c.End()), 0o644)
}

// legend says what the shapes are, below the title.
func (c *qualityChart) legend() {
	y, second := c.Top-20, c.Left+200
	fmt.Fprintf(c, `<circle class="format" cx="%g" cy="%g" r="4.5"/><text x="%g" y="%g">format, everything kept</text>`+"\n", c.Left+5, y, c.Left+15, y+4)
	fmt.Fprintf(c, `<rect class="policy" x="%g" y="%g" width="8" height="8"/><text x="%g" y="%g">policy with its budget in tokens</text>`+"\n", second, y-4, second+14, y+4)
}

// axes chooses the scales and draws their lines.
func (c *qualityChart) axes(r *qualityReport) {
	low, high := math.Inf(1), math.Inf(-1)
	least, most := -linearLoss, 10*linearLoss
	for _, s := range r.rows {
		low, high = min(low, float64(s.Bytes)), max(high, float64(s.Bytes))
		least, most = min(least, r.loss(s)), max(most, r.loss(s))
	}
	c.X = svgplot.Scale(math.Log2, low/1.3, high*1.25, c.Left, c.Right)
	c.Y = svgplot.Scale(func(loss float64) float64 { return math.Asinh(loss / linearLoss) }, least*1.3, most*1.3, c.Bottom, c.Top)
	for n := math.Exp2(math.Ceil(math.Log2(low / 1.3))); n <= high*1.25; n *= 2 {
		c.Column(n, strings.Replace(byteSize(int64(n)), ".0", "", 1))
	}
	for _, loss := range []float64{-1, -0.1, -0.01, -0.001, 0, 0.001, 0.01, 0.05, 0.1, 0.5, 1, 10} {
		if loss < least*1.3 || loss > most*1.3 {
			continue
		}
		class := "grid"
		if loss == 0 {
			class = "zero"
		}
		c.Row(loss, class, fmt.Sprint(loss))
	}
	c.Axes("bytes of the cache, at most, of one text", "loss against f32, nats a token")
}

// add makes a mark of a row, or adds its name to the mark that is there.
func (c *qualityChart) add(r *qualityReport, s quality.Score) {
	m := qualityMark{x: c.X(float64(s.Bytes)), y: c.Y(r.loss(s)), name: label(s), policy: s.Budget > 0}
	for i := range c.marks {
		if old := &c.marks[i]; math.Hypot(old.x-m.x, old.y-m.y) < 1 {
			old.name += ", " + m.name
			return
		}
	}
	m.about = fmt.Sprintf("%+.5f nats, %s", r.loss(s), byteSize(s.Bytes))
	c.marks = append(c.marks, m)
	c.taken = append(c.taken, box{m.x - 5, m.y - 5, m.x + 5, m.y + 5})
}

// mark draws a mark, and its name where there is room for it.
func (c *qualityChart) mark(m qualityMark) {
	title := fmt.Sprintf("<title>%s: %s</title>", m.name, m.about) // shown where the pointer is
	if m.policy {
		fmt.Fprintf(c, `<rect class="policy" x="%.1f" y="%.1f" width="8" height="8">%s</rect>`, m.x-4, m.y-4, title)
	} else {
		fmt.Fprintf(c, `<circle class="format" cx="%.1f" cy="%.1f" r="4.5">%s</circle>`, m.x, m.y, title)
	}
	c.name(m)
	c.WriteString("\n")
}

// name writes a mark's name at the nearest place that is free.
func (c *qualityChart) name(m qualityMark) {
	at, found := c.room(m.x, m.y, letterWidth*float64(len(m.name)))
	if !found {
		return
	}
	c.taken = append(c.taken, at)
	if middle := (at.top + at.bottom) / 2; math.Abs(middle-m.y) > lineHeight/2 {
		fmt.Fprintf(c, `<path class="lead" d="M%.1f %.1f L%.1f %.1f"/>`, m.x, m.y, min(max(m.x, at.left), at.right), middle)
	}
	fmt.Fprintf(c, `<text class="label" x="%.1f" y="%.1f">%s</text>`, at.left, at.bottom-2.5, m.name)
}

// room is a free place for a label of some width beside a mark.
func (c *qualityChart) room(x, y, width float64) (at box, found bool) {
	for step := range 24 {
		away := lineHeight * float64((step+1)/2) * float64(1-step%2*2)
		for _, left := range [...]float64{x + 8, x - 8 - width, x - width/2} {
			at = box{left, y + away - lineHeight/2, left + width, y + away + lineHeight/2}
			inside := at.left > c.Left && at.right < c.Width && at.top > c.Top && at.bottom < c.Bottom
			if inside && !slices.ContainsFunc(c.taken, at.meets) {
				return at, true
			}
		}
	}
	return box{}, false
}
