package main

import (
	"fmt"
	"slices"
)

// aim is a figure that trials should reach.
type aim struct {
	what    string
	least   float64
	most    float64 // instead of least, for times and shares
	format  string  // of figures; "": of ratios
	reached []float64
}

// aims is a table of the aims, and of what trials reach.
func aims(wanted []aim) string {
	rows := [][]string{{"aim", "wanted", "lowest", "median", "highest"}}
	for _, a := range wanted {
		if a.format == "" {
			a.format = "%.2f"
		}
		bound := "≥ " + fmt.Sprintf(a.format, a.least)
		if a.most > 0 {
			bound = "≤ " + fmt.Sprintf(a.format, a.most)
		}
		row := []string{a.what, bound, "–", "–", "–"}
		if slices.Sort(a.reached); a.reached != nil {
			for i, at := range []int{0, len(a.reached) / 2, len(a.reached) - 1} {
				row[2+i] = fmt.Sprintf(a.format, a.reached[at])
			}
		}
		rows = append(rows, row)
	}
	return markdown(rows...)
}

// metric is a figure of the trials that have it.
func metric(unit string, trials []trial) (values []float64) {
	for _, t := range trials {
		if v, ok := t.metrics[unit]; ok {
			values = append(values, v)
		}
	}
	return values
}
