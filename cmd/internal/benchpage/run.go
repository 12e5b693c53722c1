package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/internal/pack"
)

// run is what the benchmarks printed.
type run struct {
	kind   string      // what the names of its trials begin with
	about  [][2]string // the device: what, and which
	trials []trial
	pack   pack.Results // experiments with kernels of a GPU; none: the zero Results
}

// trial is a line: the parts of its name, and its metrics by unit.
type trial struct {
	parts   []string
	metrics map[string]float64
}

// is reports whether a trial's name has all parts.
func (t trial) is(parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !slices.Contains(t.parts, part) })
}

// stored is how the keys of a step are stored.
func (t trial) stored() string { return t.parts[1][strings.LastIndex(t.parts[1], "-")+1:] }

// noisy is a spread from which on a figure is marked.
const noisy = 0.05

// spread is how far the quartiles of the times are from each other, as a part of the median;
// 0 where they are not known.
func (t trial) spread() float64 {
	return (t.metrics["q3-ns"] - t.metrics["q1-ns"]) / t.metrics["ns/op"]
}

// value is the part of a name after "key=".
func (t trial) value(key string) string {
	for _, part := range t.parts {
		if value, ok := strings.CutPrefix(part, key+"="); ok {
			return value
		}
	}
	return ""
}

// The kinds of benchmarks.
const (
	cpuKind   = "BenchmarkCPU/"
	gpuKind   = "BenchmarkKernels/"
	peersKind = "BenchmarkPeers/"
)

// page is the run as the documents of its kind show it.
func (r *run) page() page {
	switch r.kind {
	case gpuKind:
		return gpu{r}
	case peersKind:
		return peers{r}
	}
	return newCPU(r)
}

var (
	// procs ends the last part of a name: what GOMAXPROCS was.
	procs = regexp.MustCompile(`-\d+$`)
	// fact is a line that says what figures depend on.
	fact = regexp.MustCompile(`^([a-z][a-z0-9 -]*): (.*)$`)
)

// parse reads what the benchmarks of one kind printed, others among them.
func parse(text string) (*run, error) {
	r := &run{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		for _, kind := range []string{cpuKind, gpuKind, peersKind} {
			if !strings.HasPrefix(line, kind) {
				continue
			}
			if r.kind != "" && r.kind != kind {
				return nil, fmt.Errorf("holds results of both %s and %s", r.kind, kind)
			}
			r.kind = kind
			t, err := parseTrial(strings.TrimPrefix(line, kind))
			if err != nil {
				return nil, err
			}
			r.trials = append(r.trials, t)
		}
		if m := fact.FindStringSubmatch(line); m != nil {
			r.about = append(r.about, [2]string{m[1], m[2]})
		}
	}
	if len(r.trials) == 0 || r.kind == cpuKind && r.values("kernels") == nil {
		return nil, errors.New("holds no results of benchmarks of kernels")
	}
	return r, nil
}

func parseTrial(line string) (trial, error) {
	fields := strings.Fields(line)
	if len(fields)%2 != 0 || len(fields) < 4 {
		return trial{}, fmt.Errorf("a name, iterations, and values with their units are wanted: %q", line)
	}
	t := trial{parts: strings.Split(procs.ReplaceAllString(fields[0], ""), "/"), metrics: map[string]float64{}}
	for i := 2; i < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return trial{}, fmt.Errorf("%q: %w", line, err)
		}
		t.metrics[fields[i+1]] = value
	}
	return t, nil
}

// all is the trials whose names have all parts.
func (r *run) all(parts ...string) (out []trial) {
	for _, t := range r.trials {
		if t.is(parts...) {
			out = append(out, t)
		}
	}
	return out
}

// values is what follows "key=" in the names, of trials with all parts, each once.
func (r *run) values(key string, parts ...string) (out []string) {
	for _, t := range r.all(parts...) {
		if v := t.value(key); v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
