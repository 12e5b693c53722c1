package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// peers is a run of attention beside that of other libraries. The names of its trials have heads, keys, queries, the library, how keys
// are stored, and their layout.
type peers struct{ *run }

const (
	peerHeads, peerStored, peerLayout = 0, 4, 5
)

// rivals is the metrics of our trials that compare them with others, and their heads in a table.
var rivals = [][2]string{{"speed-of-ggml", "ggml, flash attention"}, {"speed-of-ggml-plain", "ggml, products and softmax"}, {"speed-of-onnx", "ONNX Runtime"}}

func (r peers) tables() map[string]func() string {
	return map[string]func() string{"machine": r.machine, "sums": r.sums, "ratios": r.ratios}
}

func (r peers) beside() map[string]string { return nil }

func (r peers) empty(string) string { return "" }

// worst is the least of the ratios to others, infinite where there are none.
func worst(t trial) float64 {
	least := math.Inf(1)
	for _, rival := range rivals {
		if v, ok := t.metrics[rival[0]]; ok {
			least = min(least, v)
		}
	}
	return least
}

// own is our trials, the one that is furthest behind another library first.
func (r peers) own() []trial {
	own := slices.Clone(r.all("ferrumkv"))
	slices.SortStableFunc(own, func(a, b trial) int { return cmp.Compare(worst(a), worst(b)) })
	return own
}

func (r peers) ratios() string {
	head := []string{"query heads × KV heads × dim", "keys", "queries", "storage, layout", "threads", "time"}
	for _, rival := range rivals {
		head = append(head, rival[1])
	}
	rows := [][]string{head}
	for _, t := range r.own() {
		row := []string{strings.ReplaceAll(t.parts[peerHeads], "x", " × "), t.value("keys"), t.value("queries"), t.parts[peerStored] + " " + t.parts[peerLayout], t.value("threads"),
			duration(t.metrics["ns/op"])}
		for _, rival := range rivals {
			text := "–"
			if v, ok := t.metrics[rival[0]]; ok {
				text = fmt.Sprintf("%.2f", v)
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return markdown(rows...)
}

// sums is for each way to store keys, and each kind of heads, the range of the ratios to the fastest other library.
func (r peers) sums() string {
	rows := [][]string{{"storage, layout", "decode, a KV head for each query head", "decode, groups", "prompts"}}
	var names []string
	for _, t := range r.all("ferrumkv") {
		if name := t.parts[peerStored] + " " + t.parts[peerLayout]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		row := []string{name}
		for _, kind := range []func(t trial) bool{
			func(t trial) bool { return t.value("queries") == "1" && alone(t) },
			func(t trial) bool { return t.value("queries") == "1" && !alone(t) },
			func(t trial) bool { return t.value("queries") != "1" },
		} {
			var ratios []float64
			for _, t := range r.all("ferrumkv") {
				if t.parts[peerStored]+" "+t.parts[peerLayout] == name && kind(t) {
					ratios = append(ratios, worst(t))
				}
			}
			text := "–"
			if len(ratios) > 0 {
				text = fmt.Sprintf("%.2f to %.2f", slices.Min(ratios), slices.Max(ratios))
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return markdown(rows...)
}

// alone reports whether each query head has a KV head of its own.
func alone(t trial) bool {
	heads := strings.Split(t.parts[peerHeads], "x")
	return heads[0] == heads[1]
}

// duration is nanoseconds, for people.
func duration(ns float64) string {
	if ns < 1e6 {
		return short(ns/1e3) + " µs"
	}
	return short(ns/1e6) + " ms"
}
