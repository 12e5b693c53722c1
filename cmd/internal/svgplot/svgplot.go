// Package svgplot draws what the plots of this program have in common: a frame with a title, a grid, and the names of its
// axes. What is plotted is written between Begin and End.
package svgplot

import (
	"fmt"
	"html"
	"strings"
)

// Plot is a drawing in units of its own: whatever shows it scales it.
type Plot struct {
	strings.Builder
	Width, Height            float64
	Left, Right, Top, Bottom float64                 // of the part between the axes
	X, Y                     func(v float64) float64 // the place of a value
}

// Begin writes the head: the title above the plot, a label for readers that see none, and a style with the classes title, paper and
// grid, and those of the marks. The style has its colours twice, for pages that are light or dark.
func (p *Plot) Begin(title, label, style string) {
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s">`+"\n%s", p.Width, p.Height, html.EscapeString(label), style)
	fmt.Fprintf(p, `<rect class="paper" width="%g" height="%g"/>`+"\n", p.Width, p.Height)
	fmt.Fprintf(p, `<text class="title" x="%g" y="26">%s</text>`+"\n", p.Left, html.EscapeString(title))
}

// Column draws a line of the grid at a value of the horizontal axis, and its name below.
func (p *Plot) Column(v float64, name string) {
	fmt.Fprintf(p, `<path class="grid" d="M%.1f %g V%g"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", p.X(v), p.Top, p.Bottom, p.X(v), p.Bottom+18, name)
}

// Row draws a line of a class at a value of the vertical axis, and its name on the left.
func (p *Plot) Row(v float64, class, name string) {
	fmt.Fprintf(p, `<path class="%s" d="M%g %.1f H%g"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n", class, p.Left, p.Y(v), p.Right, p.Left-8, p.Y(v)+4, name)
}

// Axes writes what the axes measure.
func (p *Plot) Axes(x, y string) {
	fmt.Fprintf(p, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", (p.Left+p.Right)/2, p.Bottom+42, x)
	fmt.Fprintf(p, `<text transform="translate(20 %g) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (p.Top+p.Bottom)/2, y)
}

// End is the whole drawing.
func (p *Plot) End() string {
	p.WriteString("</svg>\n")
	return p.String()
}

// Scale maps values from low to high on the places between two others, by a function that rises: math.Log for a
// logarithmic axis.
func Scale(of func(float64) float64, low, high, from, to float64) func(float64) float64 {
	a, b := of(low), of(high)
	return func(v float64) float64 { return from + (to-from)*(of(v)-a)/(b-a) }
}
