package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/load"
	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
	"github.com/spf13/cobra"
)

// loadFlags are the settings of load.
type loadFlags struct {
	traces    []string
	synthesis replay.Synthesis
	workload  load.Workload
	server    loadServerFlags
	objective string
	timeout   time.Duration
	json      bool
	html      string
}

func newLoad() *cobra.Command {
	f := loadFlags{synthesis: replay.DefaultSynthesis}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Send a trace's requests to an OpenAI-compatible server and measure it",
		Long: `load sends requests to a server with OpenAI's HTTP interface, reads their answers as
streams, and reports by quantile the time to the first token, the time per token, and
the time of the whole answer, besides goodput (requests a second that met --objective),
the hit rate of the server's prefix cache, and errors.

Requests come from a trace as replay reads it, or from the trace that replay generates.
They are due when the trace says, --rate a second at random, or as soon as one of
--concurrency callers has its previous answer. Times count from when a request was due, so that a slow
server does not look better because requests had to wait to be sent.

A prompt has the length that the trace says, times --scale, and is made of its blocks: equal
blocks are equal text. The text is words without meaning; two requests before the run
find out how many tokens the server makes of them. With --token-ids a prompt is a list of
tokens instead, as vLLM and 'ferrumkv serve' accept it.

The hit rate is what the server reports (usage.prompt_tokens_details.cached_tokens). The
possible one is that of a cache that begins empty and keeps every prompt from when it was
sent; a server that another run with the same --seed has filled may have more.

Ctrl-C ends a run; what was measured until then is reported.`,
		Example: `  # four callers, for a minute, with prompts for a model with a context of 1,024 tokens
  ferrumkv load --concurrency 4 --duration 1m --scale 0.1 --max-prompt 700 --max-tokens 100

  # Mooncake's trace at twice its speed, and a page with plots
  ferrumkv load --url http://10.0.0.5:8000 --trace conversation_trace.jsonl --speed 2 --html load.html

  # ten requests a second at random, for scripts
  ferrumkv load --rate 10 --requests 1000 --json

  # another objective, of a server that wants a key
  ferrumkv load --url https://api.example.com --api-key-file key.txt --rate 1 --objective ttft=1s,tpot=30ms`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, w := cmd.Flags(), &f.workload
	f.server.register(cmd)
	flags.StringArrayVar(&f.traces, "trace", nil, "`PATH` of a trace or a directory of them; repeat it for more (default: a generated trace)")
	flags.Float64Var(&w.Speed, "speed", 1, "`N` times as fast as the trace")
	flags.Float64Var(&w.Rate, "rate", 0, "`N` requests a second at random, a Poisson process, instead of the trace's times")
	flags.IntVar(&w.Concurrency, "concurrency", 0, "`N` callers, each of which waits for its answer before its next request, instead of the trace's times")
	flags.IntVar(&w.Requests, "requests", 0, "at most `N` requests (default: all of a trace; of a generated one 1000, or what --duration takes)")
	flags.DurationVar(&w.Duration, "duration", 0, "begin no request after this time; those that run are waited for")
	flags.Float64Var(&w.Scale, "scale", 1, "prompts of `N` times the length, such as 0.01 for a small model")
	flags.IntVar(&w.MaxPrompt, "max-prompt", 0, "cut prompts after `N` tokens")
	flags.IntVarP(&w.MaxOutput, "max-tokens", "n", 0, "cut answers after `N` tokens")
	flags.Uint64Var(&w.Seed, "seed", 1, "seed `N` of generated traces, random times and words")
	flags.StringVar(&f.objective, "objective", "ttft=500ms,tpot=50ms", "`TIMES` that a request must meet to count for goodput: to the first token, per token after it, or one of them")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to wait for a whole answer")
	flags.BoolVar(&f.json, "json", false, "print the report as a JSON object")
	flags.StringVar(&f.html, "html", "", "write a page with plots to `FILE`; it needs no network")
	registerPopulation(cmd, &f.synthesis)
	return cmd
}

func (f loadFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	objective, err := load.ParseObjective(f.objective)
	if err != nil {
		return fmt.Errorf("--objective %s: %w", f.objective, err)
	}
	if err := checkOutput("html", f.html); err != nil { // rather than after the run
		return err
	}
	client, err := f.server.client(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	line := newProgress(cmd.ErrOrStderr())
	defer line.clear()
	trace, err := f.trace(cmd.Context(), line)
	if err != nil {
		return err
	}
	dialect, counted, err := f.server.meet(cmd.Context(), client, line, f.workload.Seed, f.timeout)
	if err != nil {
		return err
	}
	plan := load.NewPlan(trace, f.workload, dialect)
	bar := runBar{line: line, total: plan.Requests(), duration: f.workload.Duration}
	result := load.Run(cmd.Context(), client, plan, f.timeout, bar.show)
	line.clear()
	r := &loadReport{trace: trace.Name, server: client.Base(), model: client.Model, workload: f.workload, dialect: dialect, counted: counted,
		objective: objective, planned: plan.Requests(), result: result, Summary: load.Summarize(result, objective)}
	if err := r.write(cmd, f.json, f.html); err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	return r.verdict()
}

// trace reads the trace, or generates one.
func (f loadFlags) trace(ctx context.Context, line *progress) (*replay.Trace, error) {
	if len(f.traces) > 0 {
		line.show("reading the trace")
		return replay.Read(ctx, f.traces...)
	}
	line.show("generating a trace")
	s := f.synthesis
	s.Seed, s.Requests = f.workload.Seed, f.generated()
	t, err := replay.Synthetic(ctx, s)
	return t, asReplayFlag(err)
}

// generated is how many requests a generated trace has: if no number is set, enough for --duration.
func (f loadFlags) generated() int {
	const least, callers = 1000, 100_000
	w := f.workload
	mean := w.Rate * w.Duration.Seconds()
	switch {
	case w.Requests > 0:
		return w.Requests
	case w.Concurrency > 0 && w.Duration > 0: // how fast the server is, is not known
		return callers
	}
	return max(least, int(mean+6*math.Sqrt(mean))) // a Poisson process hardly ever has more
}

// runBar shows how far a run is.
type runBar struct {
	line     *progress
	total    int
	duration time.Duration // 0: until all requests ended
}

func (b runBar) show(p load.Progress) {
	percent := 100 * p.Done / max(b.total, 1)
	if b.duration > 0 {
		percent = max(percent, int(min(100*p.Elapsed/b.duration, 100)))
	}
	b.line.show("%s %d running, %d done, %d failed", barOf(percent), p.Running, p.Done, p.Failed)
}
