package main

import (
	"fmt"
	"slices"
	"strings"
)

// fill replaces what stands between "<!-- NAME -->" and "<!-- end -->".
func fill(text string, tables map[string]func() string) (string, error) {
	const open, end = "<!-- ", "<!-- end -->"
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, open)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, rest, _ := strings.Cut(rest, " -->\n")
		table, known := tables[name]
		_, after, closed := strings.Cut(rest, end)
		if !known || !closed {
			return "", fmt.Errorf("no table %q, or no end of it", name)
		}
		fmt.Fprintf(&out, "%s%s -->\n%s%s", open, name, table(), end)
		text = after
	}
}

// markdown is a table of rows, the first its head.
func markdown(rows ...[]string) string {
	var out strings.Builder
	line := func(cells []string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	for i, row := range rows {
		line(row)
		if i == 0 {
			line(slices.Repeat([]string{"---"}, len(row)))
		}
	}
	return out.String()
}

func (r *run) machine() string {
	rows := [][]string{{"", ""}}
	for _, about := range r.about {
		if !slices.Contains([]string{"goos", "goarch", "pkg", "cpu"}, about[0]) { // printed by the tool, and above already
			rows = append(rows, about[:])
		}
	}
	return markdown(rows...)
}

// grid is a table with a row for each of the names that trials have in their first n parts, in
// their order, and a column for each of the last parts that are named.
func grid(trials []trial, n int, head string, columns []column, cell func(t trial) string) string {
	row := []string{head}
	for _, c := range columns {
		row = append(row, c.name)
	}
	rows := [][]string{row}
	var names []string
	for _, t := range trials {
		name := strings.Join(t.parts[1:n], " ")
		if slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		row := []string{strings.ReplaceAll(name, "=", " ")}
		for _, c := range columns {
			i := slices.IndexFunc(trials, func(o trial) bool {
				return strings.Join(o.parts[1:n], " ") == name && o.is(c.parts...)
			})
			text := ""
			if i >= 0 {
				text = cell(trials[i])
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return markdown(rows...)
}

// column is a column of a grid: the trials whose names have all parts.
type column struct {
	name  string
	parts []string
}

// rate is how fast a trial is, where its figures say so.
func rate(t trial) string {
	for _, unit := range []string{"GB/s", "GFLOP/s", "TFLOP/s"} {
		if v, ok := t.metrics[unit]; ok {
			return short(v) + " " + unit
		}
	}
	return "–"
}

// short is three digits, or as many as an integer has.
func short(v float64) string {
	if v >= 999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// fraction is how much of its limit a trial reaches, with a mark where others had too much of
// the machine, or times were too different.
func fraction(t trial) string {
	text := "–"
	if v, ok := t.metrics["of-limit"]; ok {
		text = fmt.Sprintf("%.2f", v)
	}
	if t.metrics["dirty"] > 0 || t.spread() > noisy {
		text += " (!)"
	}
	return text
}

func both(t trial) string { return fmt.Sprintf("%s, %s", rate(t), fraction(t)) }
