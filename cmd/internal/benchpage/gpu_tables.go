package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/internal/pack"
)

func (r gpu) limits() string {
	rows := [][]string{{"", "median", "quartiles"}}
	for _, t := range r.all("limit") {
		rows = append(rows, []string{t.parts[1], rate(t), around(t)})
	}
	return markdown(rows...)
}

// around is the quartiles of the times, beside their median.
func around(t trial) string {
	part := func(unit string) float64 { return 100 * (t.metrics[unit]/t.metrics["ns/op"] - 1) }
	return fmt.Sprintf("%+.1f %%, %+.1f %%", part("q1-ns"), part("q3-ns"))
}

// micros is the time of a trial.
func micros(t trial) string { return fmt.Sprintf("%.4g µs", t.metrics["ns/op"]/1e3) }

// brief reports whether a step is one sequence that is soon read.
func (t trial) brief() bool { return t.is("batch=1", "queries=1") && t.metrics["MB"] < 32 }

// steps is a grid of decode and its like with a column for each batch and context.
func (r gpu) steps(head string, trials []trial, cell func(t trial) string) string {
	var columns []column
	for _, t := range trials {
		batch, context := t.value("batch"), t.value("context")
		c := column{batch + " × " + context, []string{"batch=" + batch, "context=" + context}}
		if !slices.ContainsFunc(columns, func(o column) bool { return o.name == c.name }) {
			columns = append(columns, c)
		}
	}
	return grid(trials, 4, head, columns, cell)
}

func (r gpu) decode() string {
	long := slices.DeleteFunc(r.all("decode"), trial.brief)
	return r.steps("types, layout, heads", long, func(t trial) string {
		text := fraction(t)
		if speed := r.speeds([]trial{t}, map[int]string{partTypes: "f16"}); t.stored() != t.parts[partTypes] && speed != nil {
			text += fmt.Sprintf(" (%.2f×)", speed[0])
		}
		return text
	})
}

func (r gpu) paged() string {
	contiguous := map[int]string{partLayout: "contiguous"}
	pairs := slices.DeleteFunc(r.all("decode", "paged16"), func(t trial) bool { return r.ratios([]trial{t}, contiguous) == nil })
	return r.steps("types, layout, heads", pairs, func(t trial) string {
		return fmt.Sprintf("%.2f×", r.speeds([]trial{t}, contiguous)[0])
	})
}

func (r gpu) brief() string {
	return r.steps("types, layout, heads", slices.DeleteFunc(r.all("decode"), func(t trial) bool { return !t.brief() }), micros)
}

// extras is what a step costs beyond plain decode.
func (r gpu) extras() string {
	rows := [][]string{{"step", "time", "of decode"}}
	for _, what := range []string{"verify", "mass", "decode-merge"} {
		for _, t := range r.all(what) {
			of := "–"
			if ratio := r.ratios([]trial{t}, map[int]string{partWhat: "decode", partQueries: "queries=1"}); ratio != nil {
				of = fmt.Sprintf("%.3f", ratio[0])
			}
			rows = append(rows, []string{spaced(t.parts), micros(t), of})
		}
	}
	return markdown(rows...)
}

// spaced is a name for people.
func spaced(parts []string) string {
	return strings.ReplaceAll(strings.Join(parts, " "), "=", " ")
}

func (r gpu) latents() string { return r.steps("types, layout, heads", r.all("latent"), both) }

// libraries are how what is done ends in names of figures that are another library's: FlashAttention and cuDNN, called by PyTorch.
var libraries = []string{"-flash", "-cudnn"}

// libraries is what other libraries take for the same steps, beside the times here.
func (r gpu) libraries() string {
	rows := [][]string{{"step", "here", "here, blocks of 16", "FlashAttention", "cuDNN"}}
	for _, t := range append(r.all("decode"), r.all("prefill")...) {
		row, found := []string{spaced(t.parts), micros(t)}, false
		changes := []map[int]string{{partLayout: "paged16"}}
		for _, name := range libraries {
			changes = append(changes, map[int]string{partWhat: t.parts[partWhat] + name})
		}
		for _, changes := range changes {
			text := "–"
			if o, ok := r.twin(t, changes); ok {
				text = micros(o)
				found = found || changes[partWhat] != ""
			}
			row = append(row, text)
		}
		if found {
			rows = append(rows, row)
		}
	}
	return markdown(rows...)
}

func (r gpu) prefill() string {
	var columns []column
	for _, n := range r.values("queries", "prefill") {
		columns = append(columns, column{n + " queries", []string{"queries=" + n}})
	}
	return grid(r.all("prefill"), 4, "types, layout, heads", columns, both)
}

func (r gpu) shared() string {
	rows := [][]string{{"step", "time", "speed of flat"}}
	for _, t := range append(r.all("flat"), r.all("cascade")...) {
		speed := "–"
		if s := r.speeds([]trial{t}, map[int]string{partWhat: "flat"}); s != nil {
			speed = fmt.Sprintf("%.2f×", s[0])
		}
		rows = append(rows, []string{spaced(t.parts), micros(t), speed})
	}
	return markdown(rows...)
}

func (r gpu) moves() string {
	rows := [][]string{{"operation", "time", "rate", "of the copy limit"}}
	for _, op := range []string{"append", "gather", "copy-blocks", "move-slots", "convert-blocks", "rotate", "fill", "merge"} {
		for _, t := range r.all(op) {
			rows = append(rows, []string{spaced(t.parts), micros(t), rate(t), fraction(t)})
		}
	}
	return markdown(rows...)
}

// host is what goes to the host and comes from there.
func (r gpu) host() string {
	rows := [][]string{{"operation", "time", "rate", "of the limit"}}
	for _, op := range []string{"pack", "unpack"} {
		for _, t := range r.all(op) {
			rows = append(rows, []string{spaced(t.parts), micros(t), rate(t), fraction(t)})
		}
	}
	return markdown(rows...)
}

// noise says how far the quartiles of a figure are from each other, of this library's.
func (r gpu) noise() string {
	var spreads []float64
	marked := 0
	for _, t := range r.trials {
		if slices.ContainsFunc(libraries, func(name string) bool { return strings.HasSuffix(t.parts[partWhat], name) }) {
			continue
		}
		spreads = append(spreads, t.spread())
		if t.spread() > noisy {
			marked++
		}
	}
	slices.Sort(spreads)
	last := len(spreads) - 1
	return markdown([]string{"figures", "median distance of quartiles", "nine in ten below", "most", "marked (!)"},
		[]string{fmt.Sprint(len(spreads)), percent(spreads[last/2]), percent(spreads[last*9/10]), percent(spreads[last]), fmt.Sprint(marked)})
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// everything is all figures.
func (r gpu) everything() string {
	rows := [][]string{{"name", "time", "quartiles", "runs", "rate", "of limit"}}
	for _, t := range r.trials {
		rows = append(rows, []string{strings.Join(t.parts, "/"), micros(t), around(t), fmt.Sprint(t.metrics["runs"]), rate(t), fraction(t)})
	}
	return markdown(rows...)
}

// tried is the experiments: what they were made of, what was chosen, and each prediction beside what was measured.
func (r gpu) tried() string {
	if r.pack.Started.IsZero() {
		return pack.Table(r.pack)
	}
	rows := [][]string{{"", ""}}
	for _, name := range slices.Sorted(maps.Keys(r.pack.About)) {
		rows = append(rows, []string{name, r.pack.About[name]})
	}
	rows = append(rows, []string{"date", r.pack.Started.Format("2 January 2006")}, []string{"commit", r.pack.Commit},
		[]string{"chosen", cmp.Or(strings.Join(r.pack.Chosen, ", "), "none")})
	return markdown(rows...) + "\n" + pack.Table(r.pack)
}
