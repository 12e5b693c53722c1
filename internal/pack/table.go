package pack

import (
	"fmt"
	"strings"
)

// Table is what was predicted beside what was measured, in Markdown: a row for each variant and shape, and one for each variant
// without shapes. Measured figures are medians, with quartiles in parentheses.
func Table(r Results) string {
	var out strings.Builder
	row := func(cells ...string) {
		for i, c := range cells {
			cells[i] = cell.Replace(c)
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	row("Variant", "Shape", "Predicted, µs", "Measured, µs", "Of the baseline's time", "Prediction")
	out.WriteString("| --- | --- | ---: | ---: | ---: | --- |\n")
	for _, v := range r.Variants {
		if len(v.Shapes) == 0 {
			row(v.Name, "", "", v.Dropped, "", "")
		}
		for _, s := range v.Shapes {
			predicted, came := s.Prediction.cells(s.Runs)
			if s.Runs == 0 {
				row(v.Name, s.Name, predicted, s.Stopped, "", came)
				continue
			}
			row(v.Name, s.Name, predicted, s.VariantUS.cell(micros), s.Ratio.cell(ratio), came)
		}
	}
	return out.String()
}

// cell keeps a text in its cell.
var cell = strings.NewReplacer("|", `\|`, "\r", "", "\n", " ")

// cells are the interval, and what came of it after some runs.
func (p *Prediction) cells(runs int) (interval, came string) {
	if p == nil {
		return "", ""
	}
	interval = micros(p.Least) + " to " + micros(p.Most)
	switch {
	case runs == 0:
		return interval, ""
	case p.Hit:
		return interval, "hit"
	case p.Off > 0:
		return interval, fmt.Sprintf("missed: %.1f %% above", 100*p.Off)
	}
	return interval, fmt.Sprintf("missed: %.1f %% below", -100*p.Off)
}

func (s Spread) cell(format func(float64) string) string {
	return fmt.Sprintf("%s (%s to %s)", format(s.Median), format(s.Q1), format(s.Q3))
}

// micros has three digits at least.
func micros(us float64) string {
	if us >= 100 {
		return fmt.Sprintf("%.0f", us)
	}
	return fmt.Sprintf("%.3g", us)
}

func ratio(r float64) string { return fmt.Sprintf("%.3f", r) }
