package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/load"
	"github.com/spf13/cobra"
)

// loadReport is what a run measured, and of what.
type loadReport struct {
	trace, server, model string
	workload             load.Workload
	dialect              load.Dialect
	counted              bool // the server counted the tokens of words
	objective            load.Objective
	planned              int
	result               load.Result
	load.Summary
}

// write shows the report, and writes the page if there is to be one.
func (r *loadReport) write(cmd *cobra.Command, asJSON bool, html string) error {
	var err error
	if asJSON {
		err = writeJSON(cmd.OutOrStdout(), r.row())
	} else {
		err = r.table(cmd.OutOrStdout())
	}
	if err != nil || html == "" {
		return err
	}
	return r.writePage(html)
}

// errNothing is a run without a single answer.
var errNothing = errors.New("no request succeeded")

// verdict is an error if nothing was measured.
func (r *loadReport) verdict() error {
	switch {
	case r.Succeeded > 0:
		return nil
	case len(r.Failures) == 0:
		return errNothing
	}
	first := r.Failures[0]
	return fmt.Errorf("%w: %w", errNothing, load.ErrRequest{Kind: first.Kind, Detail: first.Example})
}

// loadTime is a time of requests, by quantile.
type loadTime struct {
	name string
	load.Quantiles
}

func (r *loadReport) times() []loadTime {
	return []loadTime{{"first token", r.TTFT}, {"per token", r.TPOT}, {"between texts", r.Gap}, {"whole answer", r.Latency}, {"sent late", r.Late}}
}

// table prints the report for people.
func (r *loadReport) table(out io.Writer) error {
	var w strings.Builder
	for _, line := range r.lines() {
		fmt.Fprintf(&w, "%-11s %s\n", line[0], line[1])
	}
	fmt.Fprintf(&w, "\n%-14s", "time")
	for _, name := range quantileNames {
		fmt.Fprintf(&w, " %10s", name)
	}
	w.WriteByte('\n')
	for _, t := range r.times() {
		fmt.Fprintf(&w, "%-14s", t.name)
		for _, cell := range quantileCells(t.Quantiles) {
			fmt.Fprintf(&w, " %10s", cell)
		}
		w.WriteByte('\n')
	}
	_, err := io.WriteString(out, w.String())
	return err
}

var quantileNames = []string{"mean", "p50", "p90", "p95", "p99", "max"}

// quantileCells are the values in the order of the names; of nothing there are none.
func quantileCells(q load.Quantiles) (out []string) {
	for _, v := range []float64{q.Mean, q.P50, q.P90, q.P95, q.P99, q.Max} {
		cell := "-"
		if q.Count > 0 {
			cell = seconds(v)
		}
		out = append(out, cell)
	}
	return out
}

// lines are what the report says above its table, each with a name.
func (r *loadReport) lines() (out [][2]string) {
	say := func(name, format string, a ...any) { out = append(out, [2]string{name, fmt.Sprintf(format, a...)}) }
	say("trace", "%s, %s", r.trace, count(r.planned, "request"))
	say("server", "%s, model %s, %s", r.server, r.model, r.endpoint())
	say("prompts", "%s", r.prompts())
	say("arrivals", "%s", r.arrivals())
	say("requests", "%d in %s: %d succeeded, %d failed%s", r.Sent, seconds(r.result.Elapsed.Seconds()), r.Succeeded, r.Failed, r.unfinished())
	for _, f := range r.Failures {
		say("errors", "%d %s", f.Count, strings.TrimSuffix(string(f.Kind)+": "+f.Example, ": "))
	}
	say("tokens", "%s of prompts, %s of answers%s", grouped(r.PromptTokens), grouped(r.OutputTokens), r.counting())
	say("rates", "%.3g requests/s, %.0f prompt tokens/s, %.0f output tokens/s", r.Throughput, r.PromptRate, r.OutputRate)
	say("hit rate", "%s; %s possible for a cache that begins empty", r.hitRate(), percent(r.PossibleHitRate))
	say("goodput", "%.3g requests/s, %s, with %s", r.Goodput, percent(r.GoodputShare), r.objective)
	return out
}

func (r *loadReport) endpoint() string {
	if r.dialect.Chat {
		return "chat completions"
	}
	return "completions"
}

func (r *loadReport) prompts() string {
	text := fmt.Sprintf("words of %.2f tokens", r.dialect.WordTokens)
	switch {
	case r.dialect.Vocabulary > 0:
		text = fmt.Sprintf("ids of tokens below %d", r.dialect.Vocabulary)
	case !r.counted:
		text += ", a guess: the server does not count tokens"
	}
	if r.workload.Scale != 1 {
		text += fmt.Sprintf(", %g of the trace's lengths", r.workload.Scale)
	}
	if r.workload.MaxPrompt > 0 {
		text += fmt.Sprintf(", at most %s", count(r.workload.MaxPrompt, "token"))
	}
	return text
}

func (r *loadReport) arrivals() string {
	switch w := r.workload; {
	case w.Rate > 0:
		return fmt.Sprintf("%g a second at random, seed %d", w.Rate, w.Seed)
	case w.Concurrency > 0:
		return fmt.Sprintf("of %s, each of which waits for its answer", count(w.Concurrency, "caller"))
	case w.Speed != 1:
		return fmt.Sprintf("of the trace, %g times as fast", w.Speed)
	}
	return "of the trace"
}

func (r *loadReport) unfinished() string {
	if r.Unfinished == 0 {
		return ""
	}
	return fmt.Sprintf(", %d without a whole answer at the end", r.Unfinished)
}

// counting says what of the tokens the server does not count.
func (r *loadReport) counting() (text string) {
	if r.Succeeded > 0 && r.PromptTokens == 0 {
		text = "; the server does not count those of prompts"
	}
	if !r.CountedByServer {
		text += "; of some answers pieces of text, for the server does not count"
	}
	return text
}

func (r *loadReport) hitRate() string {
	if !r.HitRateKnown {
		return "not reported by this server"
	}
	return percent(r.HitRate)
}
