package main

import (
	"fmt"
	"slices"
	"strings"
)

// tables is what may stand between marks, by the name in the mark.
var tables = map[string]func(r *run) string{
	"machine": (*run).machine, "aims": (*run).aims, "limits": (*run).limits, "decode": (*run).decode, "mass": (*run).mass,
	"prefill": (*run).prefill, "moves": (*run).moves, "kernels": (*run).twins, "dispatch": (*run).dispatch,
}

// fill replaces what stands between "<!-- NAME -->" and "<!-- end -->".
func (r *run) fill(text string) (string, error) {
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
		fmt.Fprintf(&out, "%s%s -->\n%s%s", open, name, table(r), end)
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
func (r *run) grid(trials []trial, n int, head string, columns []column, cell func(t trial) string) string {
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

// perThreads is a column for each number of threads.
func (r *run) perThreads(parts ...string) (out []column) {
	for _, n := range r.threads {
		name := n + " threads"
		if n == "1" {
			name = "1 thread"
		}
		out = append(out, column{name, append(slices.Clone(parts), "threads="+n)})
	}
	return out
}

// rate is how fast a trial is.
func rate(t trial) string {
	for _, unit := range []string{"GB/s", "GFLOP/s"} {
		if v, ok := t.metrics[unit]; ok {
			return fmt.Sprintf("%.3g %s", v, unit)
		}
	}
	return fmt.Sprintf("%.3g ns", t.metrics["ns/op"])
}

// fraction is how much of its limit a trial reaches, with a mark where others had too much of
// the machine.
func fraction(t trial) string {
	text := "–"
	if v, ok := t.metrics["of-limit"]; ok {
		text = fmt.Sprintf("%.2f", v)
	}
	if t.metrics["dirty"] > 0 {
		text += " (!)"
	}
	return text
}

func both(t trial) string { return fmt.Sprintf("%s, %s", rate(t), fraction(t)) }

func (r *run) limits() string {
	return r.grid(r.all("limit"), 2, "", r.perKernels(), rate)
}

// perKernels is a column for each number of threads and each kind of kernels.
func (r *run) perKernels() (out []column) {
	for _, c := range r.perThreads() {
		for _, k := range r.kernels {
			out = append(out, column{c.name + ", " + k, append(slices.Clone(c.parts), "kernels="+k)})
		}
	}
	return out
}

// steps is a column for each batch, context and number of threads.
func (r *run) steps() (out []column) {
	for _, threads := range r.perThreads(r.best()) {
		for _, batch := range r.values("batch", "decode") {
			for _, context := range r.values("context", "decode") {
				out = append(out, column{fmt.Sprintf("%s: %s × %s", threads.name, batch, context),
					append(slices.Clone(threads.parts), "batch="+batch, "context="+context)})
			}
		}
	}
	return out
}

// plain is the trials of decoding, with the attention mass or without it.
func (r *run) plain(mass bool) []trial {
	return slices.DeleteFunc(r.all("decode"), func(t trial) bool { return strings.HasSuffix(t.parts[1], "+mass") != mass })
}

func (r *run) decode() string {
	return r.grid(r.plain(false), 3, "storage, layout", r.steps(), func(t trial) string {
		text := fraction(t)
		if v, ok := t.metrics["speed-of-f16"]; ok {
			text += fmt.Sprintf(" (%.2f×)", v)
		}
		return text
	})
}

func (r *run) mass() string {
	return r.grid(r.plain(true), 3, "storage, layout", r.steps(), func(t trial) string {
		return fmt.Sprintf("%+.0f %%", 100*(1/t.metrics["speed-of-plain"]-1))
	})
}

func (r *run) prefill() string {
	return r.grid(r.all("prefill", r.best()), 6, "storage, layout, prompt", r.perThreads(), both)
}

func (r *run) moves() (out string) {
	var trials []trial
	for _, op := range []string{"append", "gather", "copyblocks", "convertblocks", "rotate"} {
		for _, t := range r.all(op) {
			t.parts = append([]string{"move"}, t.parts...) // the operation is part of the row
			trials = append(trials, t)
		}
	}
	return r.grid(trials, 5, "operation", r.perThreads(), both)
}

func (r *run) twins() string {
	var columns []column
	for _, k := range r.kernels {
		columns = append(columns, column{k, []string{"kernels=" + k, "threads=1"}})
	}
	other := "kernels=" + r.kernels[min(1, len(r.kernels)-1)]
	twins := slices.DeleteFunc(append(r.plain(false), r.all("prefill")...), func(t trial) bool {
		return r.all(append(slices.Clone(t.parts[:len(t.parts)-1]), other)...) == nil
	})
	return r.grid(twins, 6, "storage, layout, step", columns, func(t trial) string {
		if v, ok := t.metrics["speed-of-"+r.kernels[0]]; ok {
			return fmt.Sprintf("%s, %.2f×", rate(t), v)
		}
		return rate(t)
	})
}

func (r *run) dispatch() string {
	return r.grid(r.all("dispatch"), 2, "", r.perThreads(), func(t trial) string {
		text := fmt.Sprintf("%.2f µs", t.metrics["ns/op"]/1e3)
		if v, ok := t.metrics["ns-beyond"]; ok {
			text += fmt.Sprintf(", %+.2f µs beyond its share", v/1e3)
		}
		return text
	})
}
