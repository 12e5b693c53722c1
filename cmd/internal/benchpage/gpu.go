package main

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
)

// gpu is a run of a GPU's benchmarks. The names of its steps have what is done, types, layout,
// query heads of a KV head, sequences, context and query tokens.
type gpu struct{ *run }

const (
	partWhat, partTypes, partLayout, partQueries = 0, 1, 2, 6
	stepParts                                    = 7
)

//go:embed gpu.md
var gpuDocument string

func (r gpu) empty(name string) string { return strings.ReplaceAll(gpuDocument, "{{name}}", name) }

func (r gpu) tables() map[string]func() string {
	return map[string]func() string{
		"machine": r.machine, "aims": func() string { return aims(r.wanted()) }, "limits": r.limits, "decode": r.decode, "paged": r.paged,
		"brief": r.brief, "extras": r.extras, "latents": r.latents, "libraries": r.libraries, "prefill": r.prefill, "shared": r.shared, "moves": r.moves, "host": r.host, "noise": r.noise, "experiments": r.tried, "all": r.everything,
	}
}

func (r gpu) beside() map[string]string {
	return map[string]string{".svg": r.roofline(), ".json": r.json()}
}

// twin is the trial whose name differs from that of t in one of its parts, or in two.
func (r gpu) twin(t trial, changes map[int]string) (trial, bool) {
	parts := slices.Clone(t.parts)
	for i, part := range changes {
		parts[i] = part
	}
	i := slices.IndexFunc(r.trials, func(o trial) bool { return slices.Equal(o.parts, parts) })
	if i < 0 {
		return trial{}, false
	}
	return r.trials[i], true
}

// ratios is the times of trials, each as a part of its twin's, of those that have one.
func (r gpu) ratios(trials []trial, changes map[int]string) (values []float64) {
	for _, t := range trials {
		if o, ok := r.twin(t, changes); ok {
			values = append(values, t.metrics["ns/op"]/o.metrics["ns/op"])
		}
	}
	return values
}

// speeds is the inverse of ratios: how many times as fast as its twin a trial is.
func (r gpu) speeds(trials []trial, changes map[int]string) []float64 {
	values := r.ratios(trials, changes)
	for i, v := range values {
		values[i] = 1 / v
	}
	return values
}

// sized is the trials of decode that read from least bytes to less than most, both in MB; of
// the storage types, where some are named.
func (r gpu) sized(least, most float64, types ...string) (out []trial) {
	for _, t := range r.all("decode") {
		if mb := t.metrics["MB"]; mb >= least && mb < most && (types == nil || slices.Contains(types, t.stored())) {
			out = append(out, t)
		}
	}
	return out
}

// roofline is the plot of attention, of types that have a colour. It is empty where a limit
// was not measured.
func (r gpu) roofline() string {
	read, products := r.all("limit", "read"), r.all("limit", "matrix-f16")
	if read == nil || products == nil {
		return ""
	}
	p := &roofline{title: "Attention", unit: "TFLOP/s", each: 1e3, bandwidth: read[0].metrics["GB/s"], peak: products[0].metrics["TFLOP/s"],
		types: []string{"f32", "f16", "bf16", "fp8e4m3", "int8", "int4"}}
	return p.draw(slices.Concat(r.all("decode"), r.all("verify"), r.all("prefill")))
}

// json is the run for programs.
func (r gpu) json() string {
	type figures struct {
		Name    string             `json:"name"`
		Metrics map[string]float64 `json:"metrics"`
	}
	var out struct {
		About  map[string]string `json:"about"`
		Trials []figures         `json:"trials"`
	}
	out.About = map[string]string{}
	for _, about := range r.about {
		out.About[about[0]] = about[1]
	}
	for _, t := range r.trials {
		out.Trials = append(out.Trials, figures{strings.Join(t.parts, "/"), t.metrics})
	}
	text, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		panic(err) // numbers and texts only
	}
	return string(text) + "\n"
}
