package main

import (
	"fmt"
	"slices"
)

// aim is a figure that trials should reach.
type aim struct {
	what  string
	unit  string
	least float64
	most  float64    // instead of least, for times
	any   [][]string // parts of the names of trials
}

// wanted is the aims, for the fastest kernels where the parts do not name others.
func (r *run) wanted() []aim {
	one, all := "threads="+r.threads[0], "threads="+r.threads[len(r.threads)-1]
	of := func(op string, types []string, parts ...string) (any [][]string) {
		for _, dt := range types {
			any = append(any, append([]string{op, dt, r.best()}, parts...))
		}
		return any
	}
	half := []string{"f16", "bf16"}
	return []aim{
		{what: "f16 and bf16, contiguous, one thread: of the read limit", unit: "of-limit", least: 0.90, any: of("decode", half, "contiguous", one)},
		{what: "the same, all threads", unit: "of-limit", least: 0.90, any: of("decode", half, "contiguous", all)},
		{what: "f16, blocks of 16, one thread", unit: "of-limit", least: 0.80, any: of("decode", half[:1], "paged16", one)},
		{what: "the same, all threads", unit: "of-limit", least: 0.85, any: of("decode", half[:1], "paged16", all)},
		{what: "f32, contiguous", unit: "of-limit", least: 0.80, any: of("decode", []string{"f32"}, "contiguous")},
		{what: "int8, one thread: times the speed of f16", unit: "speed-of-f16", least: 1.35, any: of("decode", []string{"int8"}, one)},
		{what: "int8 with queries in int8, one thread", unit: "speed-of-f16", least: 1.8, any: of("decode", []string{"int8+int8query"}, one)},
		{what: "int4, one thread", unit: "speed-of-f16", least: 1.25, any: of("decode", []string{"int4"}, one)},
		{what: "int4 with queries in int8, one thread", unit: "speed-of-f16", least: 2, any: of("decode", []string{"int4+int8query"}, one)},
		{what: "attention mass: times the speed without", unit: "speed-of-plain", least: 1 / 1.15, any: of("decode", []string{"f16+mass"})},
		{what: "prompts in f32 and f16: of the multiplication limit", unit: "of-limit", least: 0.5, any: of("prefill", []string{"f32", "f16"})},
		{what: "append f16: of the copy limit", unit: "of-limit", least: 0.8, any: of("append", []string{"f16-f16"})},
		{what: "copy blocks of f16", unit: "of-limit", least: 0.8, any: of("copyblocks", []string{"f16"})},
		{what: "AVX2: times the speed of AVX-512", unit: "speed-of-avx512", least: 0.75, any: [][]string{{"kernels=avx2"}}},
		{what: "smallest layer, append and attention", unit: "ns/op", most: 1000, any: [][]string{{"dispatch", "smallest"}}},
		{what: "layer shared by all threads, beyond its share", unit: "ns-beyond", most: 1000, any: [][]string{{"dispatch"}}},
	}
}

// aims is a table of the aims, and of what trials reach.
func (r *run) aims() string {
	rows := [][]string{{"aim", "wanted", "lowest", "median", "highest"}}
	for _, a := range r.wanted() {
		var reached []float64
		for _, parts := range a.any {
			for _, t := range r.all(parts...) {
				if v, ok := t.metrics[a.unit]; ok {
					reached = append(reached, v)
				}
			}
		}
		if reached == nil {
			continue
		}
		slices.Sort(reached)
		least, format := fmt.Sprintf("≥ %.2f", a.least), "%.2f"
		if a.most > 0 {
			least, format = fmt.Sprintf("≤ %g ns", a.most), "%.0f ns"
		}
		row := []string{a.what, least}
		for _, v := range []float64{reached[0], reached[len(reached)/2], reached[len(reached)-1]} {
			row = append(row, fmt.Sprintf(format, v))
		}
		rows = append(rows, row)
	}
	return markdown(rows...)
}
