package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
	"github.com/spf13/cobra"
)

// replayFlags are the settings of replay.
type replayFlags struct {
	traces, capacities, policies []string
	synthesis                    replay.Synthesis
	parts                        partsFlags
	tiers                        replayTierFlags
	json                         bool
	html                         string
}

func newReplay() *cobra.Command {
	f := replayFlags{synthesis: replay.DefaultSynthesis, parts: newPartsFlags()}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Replay serving traces through the prefix cache and compare policies",
		Long: `replay sends the prompts of a trace through the library's prefix tree and block
allocator, without a model, and counts how many blocks were cached when a prompt
named them. Policies stand side by side for every capacity, between two ends: a
cache that keeps everything (infinite), and the optimum for the capacity, which
knows the future (` + replay.Optimum + `).

A trace is a file of Mooncake's JSON lines (512-token blocks), an agentic session
as JSON, or a directory of either; the content tells which. Several are interleaved
by time and share no block. Without --trace one is generated, the same for the same
flags: conversations that begin with popular system prompts and grow by turns, and
between them scans, long prompts that are never sent again.

A capacity of N% is rounded down to whole blocks. --json says of each run its trace,
policy, capacity in blocks, references to blocks, hits and seconds: a line for each
capacity and policy of --policy, and a single one for infinite, which has room for
all blocks whatever --capacity says. The table and the page always show both ends.

With --window or --state-parts the model has layers that do not keep everything. Each
part, that of full attention included, has blocks of its own, which are blocks of the
capacity; N% is then a share of what the trace's different blocks take in all parts. A
request finds no more than where every part has what it needs: of a window the last
blocks, of a state a checkpoint. The report says what full attention alone would have
found, and how many blocks there are of each kind. --retain says which blocks that leave
a window, and which states, stay findable: all; ends, for what is read where prompts
end and where two of them part; or N, for what is also read at every N-th block, which is
all of a window that is no shorter than N blocks.

With --host or --disk tiers are below the cache: what a prompt computes is stored there, and
what the cache evicted comes back. The report says how many hits each gave, and how many
bytes of a model with --token-bytes were moved. A disk's blocks are the library's disk tier
with its files in memory. With --prefill-rate there is a simulated clock: the library's
planner decides what is loaded, at the rates of the tiers, and what is computed, and the
report has the time to the first token with tiers and without.`,
		Example: `  # policies on the generated trace
  ferrumkv replay

  # one run: which prompts of the trace does a cache of 5% of its blocks know?
  ferrumkv replay --trace conversation_trace.jsonl --capacity 5% --policy lru --json

  # twenty sessions at once, as a page with plots
  ferrumkv replay --trace traces/agentic --html replay.html

  # a model with five layers of a window for each of full attention
  ferrumkv replay --window 1024 --window-parts 5 --retain ends

  # a tier of host memory four times as large as the cache, and a disk of twenty times
  ferrumkv replay --capacity 5% --host 4x --disk 20x --prefill-rate 20000 --host-rate 20GB --disk-rate 6GB

  # more users than prompts that they share, and no scans
  ferrumkv replay --conversations 5000 --system-prompts 10 --scans 0`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, s := cmd.Flags(), &f.synthesis
	flags.StringArrayVar(&f.traces, "trace", nil, "`PATH` of a trace or a directory of them; repeat it for more (default: a generated trace)")
	flags.StringSliceVar(&f.capacities, "capacity", []string{"1%", "2%", "5%", "10%", "25%", "50%", "100%"}, "capacities: `BLOCKS`, N% of the trace's different blocks, or unlimited")
	flags.StringSliceVar(&f.policies, "policy", withEnds(replay.Compared()), "policies, each a `NAME`: "+strings.Join(withEnds(replay.Policies()), ", "))
	flags.BoolVar(&f.json, "json", false, "print a line of JSON for each run")
	flags.StringVar(&f.html, "html", "", "write a page with plots to `FILE`; it needs no network")
	f.parts.add(cmd)
	f.tiers.add(cmd)
	flags.Uint64Var(&s.Seed, "seed", s.Seed, "generated trace: seed `N`")
	flags.IntVar(&s.Requests, "requests", s.Requests, "generated trace: `N` requests")
	registerPopulation(cmd, s)
	return cmd
}

// registerPopulation adds the flags of the users that a trace is generated of.
func registerPopulation(cmd *cobra.Command, s *replay.Synthesis) {
	flags := cmd.Flags()
	flags.IntVar(&s.SystemPrompts, "system-prompts", s.SystemPrompts, "generated trace: `N` system prompts, popular by Zipf's law")
	flags.IntVar(&s.Conversations, "conversations", s.Conversations, "generated trace: `N` conversations at a time")
	flags.IntVar(&s.Turns, "turns", s.Turns, "generated trace: `N` turns of a conversation, on average")
	flags.IntVar(&s.ScanPercent, "scans", s.ScanPercent, "generated trace: `N`% of the requests are scans")
}

// setup is what the trace is replayed through beside capacities and policies.
func (f *replayFlags) setup(cmd *cobra.Command) (s replay.Setup, err error) {
	if s.Parts, err = f.parts.parts(cmd); err != nil {
		return s, err
	}
	if s.Tiers, err = f.tiers.tiers(cmd); err != nil {
		return s, err
	}
	return s, asReplayFlag(s.Check())
}

// boundless reports whether a setup has no optimum to compare with.
func boundless(s replay.Setup) bool { return s.Parts.Any() || s.Tiers.Any() }

// population are flags that make no sense with a trace, synthetic those of replay.
var (
	population = []string{"system-prompts", "conversations", "turns", "scans"}
	synthetic  = append([]string{"seed", "requests"}, population...)
)

// noneChanged refuses flags of the generated trace where there is another one.
func noneChanged(cmd *cobra.Command, flags []string) error {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s: is for the generated trace; leave it out, or --trace", name)
		}
	}
	return nil
}

func (f replayFlags) run(cmd *cobra.Command) error {
	capacities, err := f.sizes()
	if err != nil {
		return err
	}
	asked, err := f.names()
	if err != nil {
		return err
	}
	setup, err := f.setup(cmd)
	if err == nil && boundless(setup) {
		asked, err = withoutOptimum(cmd, asked)
	}
	if err != nil {
		return err
	}
	if err := checkOutput("html", f.html); err != nil { // rather than after the replay
		return err
	}
	bar := &progressBar{line: newProgress(cmd.ErrOrStderr())}
	defer bar.line.clear()
	trace, err := f.load(cmd, bar)
	if err != nil {
		return err
	}
	r := newReplayReport(trace, capacities, f.replayed(asked, setup), setup)
	show := replayTable{out: cmd.OutOrStdout(), report: r}.write
	if f.json {
		show = func(run replay.Run) error {
			if !slices.Contains(asked, run.Policy) {
				return nil // an end that only the page shows
			}
			return writeJSON(cmd.OutOrStdout(), r.row(run))
		}
	}
	if err := r.measure(cmd.Context(), bar, show); err != nil {
		return err
	}
	if f.html == "" {
		return nil
	}
	return r.writePage(f.html)
}

// sizes are the capacities that were asked for.
func (f replayFlags) sizes() ([]replay.Capacity, error) {
	var out []replay.Capacity
	for _, text := range f.capacities {
		c, err := replay.ParseCapacity(text)
		if err != nil {
			return nil, asReplayFlag(err)
		}
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("--capacity: names none")
	}
	return out, nil
}

// names are the policies that were asked for, each once.
func (f replayFlags) names() ([]string, error) {
	var out []string
	known := withEnds(replay.Policies())
	for _, name := range f.policies {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--policy %s: accepts %s", name, strings.Join(known, ", "))
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("--policy: names none")
	}
	return out, nil
}

// replayed are the policies to replay, of those that were asked for. The infinite
// cache is counted without a replay; the optimum, which takes one, comes last, and
// also where it was not asked for but is shown. With parts or tiers there is none.
func (f replayFlags) replayed(asked []string, setup replay.Setup) []string {
	out := slices.DeleteFunc(slices.Clone(asked), func(name string) bool { return name == infinite || name == replay.Optimum })
	if boundless(setup) {
		return out
	}
	if !f.json || f.html != "" || slices.Contains(asked, replay.Optimum) {
		out = append(out, replay.Optimum)
	}
	return out
}

// withEnds puts policies between the two ends of what any can reach.
func withEnds(policies []string) []string {
	return append(append([]string{infinite}, policies...), replay.Optimum)
}

// asReplayFlag names the flag where the replay names a setting.
func asReplayFlag(err error) error {
	var setting replay.ErrSetting
	if errors.As(err, &setting) {
		return fmt.Errorf("--%s %s: %s", setting.Name, setting.Value, setting.Why)
	}
	return err
}

func (f replayFlags) load(cmd *cobra.Command, bar *progressBar) (*replay.Trace, error) {
	if len(f.traces) == 0 {
		bar.line.show("generating a trace")
		t, err := replay.Synthetic(cmd.Context(), f.synthesis)
		return t, asReplayFlag(err)
	}
	if err := noneChanged(cmd, synthetic); err != nil {
		return nil, err
	}
	bar.line.show("reading %s", strings.Join(f.traces, ", "))
	return replay.Read(cmd.Context(), f.traces...)
}
