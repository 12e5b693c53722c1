package main

import (
	"fmt"
	"io"
	"strings"
)

// modelRow is one line of the result.
type modelRow struct {
	Model       string  `json:"model"`
	Size        int64   `json:"size_bytes"` // of the files of weights
	Parameters  int     `json:"parameters"`
	Backend     string  `json:"backend"`
	Threads     int     `json:"threads"` // of the host
	Layout      string  `json:"layout"`
	KType       string  `json:"k_type"`
	Test        string  `json:"test"`
	Repetitions int     `json:"repetitions"`
	PerSecond   float64 `json:"tokens_per_second"` // the mean of the repetitions
	Deviation   float64 `json:"deviation"`         // the standard deviation of a repetition
}

// modelTable prints rows as llama-bench does, each as soon as it is measured.
type modelTable struct {
	out   io.Writer
	begun bool
}

// modelColumns are the widths of the table's columns; those of numbers are negative.
var modelColumns = []struct {
	name  string
	width int
}{{"model", 30}, {"size", -10}, {"params", -10}, {"backend", 10}, {"threads", -7}, {"layout", 10}, {"K type", 8}, {"test", -8}, {"t/s", -20}}

func (t *modelTable) write(r modelRow) error {
	var w strings.Builder
	line := func(cell func(i int) string) {
		for i, c := range modelColumns {
			fmt.Fprintf(&w, "| %*s ", -c.width, cell(i))
		}
		w.WriteString("|\n")
	}
	if !t.begun {
		t.begun = true
		line(func(i int) string { return modelColumns[i].name })
		for _, c := range modelColumns {
			rule := strings.Repeat("-", max(c.width, -c.width))
			if c.width < 0 {
				rule = rule[1:] + ":"
			}
			w.WriteString("| " + rule + " ")
		}
		w.WriteString("|\n")
	}
	cells := []string{r.Model, byteSize(r.Size), parameters(r.Parameters), r.Backend, fmt.Sprint(r.Threads), r.Layout, r.KType, r.Test, fmt.Sprintf("%.2f ± %.2f", r.PerSecond, r.Deviation)}
	line(func(i int) string { return cells[i] })
	_, err := io.WriteString(t.out, w.String())
	return err
}

// parameters is a number of weights for people: "6.74 B".
func parameters(n int) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.2f B", float64(n)/1e9)
	}
	return fmt.Sprintf("%.2f M", float64(n)/1e6)
}
