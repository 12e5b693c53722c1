package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// run is what the benchmarks printed.
type run struct {
	about   [][2]string // the machine: what, and which
	kernels []string    // the fastest first
	threads []string    // as they were measured, the fewest first
	trials  []trial
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

// value is the part of a name behind "key=".
func (t trial) value(key string) string {
	for _, part := range t.parts {
		if value, ok := strings.CutPrefix(part, key+"="); ok {
			return value
		}
	}
	return ""
}

const prefix = "BenchmarkCPU/"

// procs ends the last part of a name: what GOMAXPROCS was.
var procs = regexp.MustCompile(`-\d+$`)

func parse(text string) (*run, error) {
	r := &run{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, prefix) {
			t, err := parseTrial(line)
			if err != nil {
				return nil, err
			}
			r.trials = append(r.trials, t)
		} else if key, value, ok := strings.Cut(line, ": "); ok && len(r.trials) == 0 {
			r.about = append(r.about, [2]string{key, value})
		}
	}
	if r.kernels = r.values("kernels"); len(r.trials) == 0 || len(r.kernels) == 0 {
		return nil, errors.New("holds no results of BenchmarkCPU")
	}
	r.threads = r.values("threads")
	return r, nil
}

func parseTrial(line string) (trial, error) {
	fields := strings.Fields(line)
	if len(fields)%2 != 0 || len(fields) < 4 {
		return trial{}, fmt.Errorf("a name, iterations, and values with their units are wanted: %q", line)
	}
	name := procs.ReplaceAllString(strings.TrimPrefix(fields[0], prefix), "")
	t := trial{parts: strings.Split(name, "/"), metrics: map[string]float64{}}
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

// values is what stands behind "key=" in the names, of trials with all parts, each once.
func (r *run) values(key string, parts ...string) (out []string) {
	for _, t := range r.all(parts...) {
		if v := t.value(key); v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// best is the part of a name that says the fastest kernels.
func (r *run) best() string { return "kernels=" + r.kernels[0] }
