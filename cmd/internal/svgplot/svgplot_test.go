package svgplot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A plot is well-formed, whatever its title is, and has its lines where its values are.
func TestPlot(t *testing.T) {
	p := &Plot{Width: 100, Height: 50, Left: 10, Right: 90, Top: 5, Bottom: 45}
	p.X, p.Y = Scale(math.Log2, 1, 16, p.Left, p.Right), Scale(func(v float64) float64 { return v }, 0, 1, p.Bottom, p.Top)
	p.Begin(`a < b & "c"`, `its "label"`, "<style>.grid { stroke: red }</style>\n")
	p.Column(4, "four")
	p.Row(0.25, "zero", "a quarter")
	p.Axes("bytes", "loss")
	drawn := p.End()

	var shown []string
	for d := xml.NewDecoder(strings.NewReader(drawn)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok && strings.TrimSpace(string(text)) != "" {
			shown = append(shown, string(text))
		}
	}
	require.Equal(t, []string{`.grid { stroke: red }`, `a < b & "c"`, "four", "a quarter", "bytes", "loss"}, shown)
	require.Contains(t, drawn, `<path class="grid" d="M50.0 5 V45"/>`)
	require.Contains(t, drawn, `<path class="zero" d="M10 35.0 H90"/>`)
}
