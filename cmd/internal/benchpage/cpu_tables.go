package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// perThreads is a column for each number of threads.
func (r cpu) perThreads(parts ...string) (out []column) {
	for _, n := range r.threads {
		name := n + " threads"
		if n == "1" {
			name = "1 thread"
		}
		out = append(out, column{name, append(slices.Clone(parts), "threads="+n)})
	}
	return out
}

func (r cpu) limits() string {
	return grid(r.all("limit"), 2, "", r.perKernels(), rate)
}

// perKernels is a column for each number of threads and each kind of kernels.
func (r cpu) perKernels() (out []column) {
	for _, c := range r.perThreads() {
		for _, k := range r.kernels {
			out = append(out, column{c.name + ", " + k, append(slices.Clone(c.parts), "kernels="+k)})
		}
	}
	return out
}

// steps is a column for each batch, context and number of threads.
func (r cpu) steps() (out []column) {
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
func (r cpu) plain(mass bool) []trial {
	return slices.DeleteFunc(r.all("decode"), func(t trial) bool { return strings.HasSuffix(t.parts[1], "+mass") != mass })
}

func (r cpu) decode() string {
	return grid(r.plain(false), 3, "storage, layout", r.steps(), func(t trial) string {
		text := fraction(t)
		if v, ok := t.metrics["speed-of-f16"]; ok {
			text += fmt.Sprintf(" (%.2f×)", v)
		}
		return text
	})
}

func (r cpu) mass() string {
	return grid(r.plain(true), 3, "storage, layout", r.steps(), func(t trial) string {
		return fmt.Sprintf("%+.0f %%", 100*(1/t.metrics["speed-of-plain"]-1))
	})
}

func (r cpu) shapes() string {
	return grid(r.all("shapes"), 4, "query heads × KV heads × dim, storage, layout", r.perThreads(), both)
}

func (r cpu) latents() string {
	return grid(r.all("latents"), 4, "query heads, storage, layout", r.perThreads(), both)
}

// lone is what all threads take for one sequence, and how many times as fast they are as one.
func (r cpu) lone() string {
	var columns []column
	contexts := r.values("context", "lone")
	slices.SortFunc(contexts, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) // as numbers
	for _, context := range contexts {
		columns = append(columns, column{context + " keys", []string{"context=" + context, "threads=" + r.threads[len(r.threads)-1]}})
	}
	return grid(r.all("lone"), 4, "layer, storage, layout", columns, func(t trial) string {
		return fmt.Sprintf("%.0f µs (%.2f×)", t.metrics["ns/op"]/1e3, t.metrics["speed-of-one"])
	})
}

func (r cpu) prefill() string {
	return grid(r.all("prefill", r.best()), 6, "storage, layout, prompt", r.perThreads(), both)
}

func (r cpu) moves() (out string) {
	var trials []trial
	for _, op := range []string{"append", "gather", "copyblocks", "convertblocks", "rotate"} {
		for _, t := range r.all(op) {
			t.parts = append([]string{"move"}, t.parts...) // the operation is part of the row
			trials = append(trials, t)
		}
	}
	return grid(trials, 5, "operation", r.perThreads(), both)
}

func (r cpu) twins() string {
	var columns []column
	for _, k := range r.kernels {
		columns = append(columns, column{k, []string{"kernels=" + k, "threads=1"}})
	}
	other := "kernels=" + r.kernels[min(1, len(r.kernels)-1)]
	twins := slices.DeleteFunc(append(r.plain(false), r.all("prefill")...), func(t trial) bool {
		return r.all(append(slices.Clone(t.parts[:len(t.parts)-1]), other)...) == nil
	})
	return grid(twins, 6, "storage, layout, step", columns, func(t trial) string {
		if v, ok := t.metrics["speed-of-"+r.kernels[0]]; ok {
			return fmt.Sprintf("%s, %.2f×", rate(t), v)
		}
		return rate(t)
	})
}

func (r cpu) dispatch() string {
	return grid(r.all("dispatch"), 2, "", r.perThreads(), func(t trial) string {
		text := fmt.Sprintf("%.2f µs", t.metrics["ns/op"]/1e3)
		if v, ok := t.metrics["ns-beyond"]; ok {
			text += fmt.Sprintf(", %+.2f µs beyond its share", v/1e3)
		}
		return text
	})
}
