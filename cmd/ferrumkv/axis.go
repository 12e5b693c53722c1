package main

import (
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/cmd/internal/svgplot"
)

// axis places values on a side of a plot.
type axis struct {
	place     func(v float64) float64
	low, high float64
	marks     []float64 // round values
}

// at is the place of a value; those beyond an end are there.
func (a axis) at(v float64) float64 { return tenth(a.place(min(max(v, a.low), a.high))) }

// ticks are the marks with their names.
func (a axis) ticks(name func(float64) string) (out []tick) {
	for _, v := range a.marks {
		out = append(out, tick{At: a.at(v), Label: name(v)})
	}
	return out
}

// timesAxis is a logarithmic one that has all times which are above 0, from a round one to a round one.
func timesAxis(times []float64, from, to float64) axis {
	least, most := 1e-3, 1.0
	if positive := slices.DeleteFunc(slices.Clone(times), func(t float64) bool { return t <= 0 }); len(positive) > 0 {
		least, most = max(slices.Min(positive), 1e-6), max(slices.Max(positive), 1e-6)
	}
	a := axis{low: math.Pow(10, math.Floor(math.Log10(least))), high: math.Pow(10, math.Ceil(math.Log10(most)))}
	if a.high <= a.low {
		a.high = 10 * a.low
	}
	a.place = svgplot.Scale(math.Log, a.low, a.high, from, to)
	steps := []float64{1, 2, 5}
	if a.high/a.low > 150 { // names would meet on a phone
		steps = steps[:1]
	}
	for decade := a.low; decade < a.high*0.99; decade *= 10 {
		for _, s := range steps {
			a.marks = append(a.marks, decade*s)
		}
	}
	a.marks = append(a.marks, a.high)
	return a
}

// countAxis begins at 0 and ends at a round value that is not below most.
func countAxis(most, from, to float64) axis {
	const marks = 5
	step := math.Pow(10, math.Floor(math.Log10(max(most, 1e-9)/marks)))
	for _, s := range []float64{1, 2, 5, 10} {
		if s*step*marks >= most*(1-1e-9) {
			step *= s
			break
		}
	}
	a := axis{high: marks * step, place: svgplot.Scale(func(v float64) float64 { return v }, 0, marks*step, from, to)}
	for i := range marks + 1 {
		a.marks = append(a.marks, float64(i)*step)
	}
	return a
}
