package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/spf13/cobra"
)

// partsFlags describe layers that do not keep everything.
type partsFlags struct {
	replay.Parts
	retain string
}

func newPartsFlags() partsFlags {
	every, share := new(config.Memory).Retention() // what a pool does by default
	return partsFlags{replay.Parts{Windows: 1, Share: share}, replay.RetentionName(every)}
}

func (f *partsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.Window, "window", 0, "the model has layers with a sliding window of this many `TOKENS`, too")
	flags.IntVar(&f.Windows, "window-parts", f.Windows, "`N` parts of layers with a window, for one of full attention")
	flags.IntVar(&f.States, "state-parts", 0, "`N` parts of layers with a recurrent state, for one of full attention")
	flags.StringVar(&f.retain, "retain", f.retain, "what stays findable of windows and states: all, `ends`, or what is read at every N-th block of a prompt")
	flags.IntVar(&f.Share, "retain-share", f.Share, "`PERCENT` of the blocks that those may take before they are evicted first")
}

// parts are the parts that were asked for.
func (f *partsFlags) parts(cmd *cobra.Command) (p replay.Parts, err error) {
	flags := cmd.Flags()
	if !flags.Changed("window") {
		if flags.Changed("window-parts") {
			return p, errors.New("--window-parts: is for --window")
		}
		f.Windows = 0
	}
	if f.Every, err = replay.ParseRetention(f.retain); err == nil {
		err = f.Check()
	}
	if err != nil {
		return p, asReplayFlag(err)
	}
	for _, name := range []string{"retain", "retain-share"} {
		if flags.Changed(name) && !f.Any() {
			return p, fmt.Errorf("--%s: is for --window and --state-parts", name)
		}
	}
	return f.Parts, nil
}

// withoutOptimum is policies that were asked for, with parts or tiers: what the optimum is then is not known.
func withoutOptimum(cmd *cobra.Command, asked []string) ([]string, error) {
	if slices.Contains(asked, replay.Optimum) && cmd.Flags().Changed("policy") {
		return nil, fmt.Errorf("--policy %s: is for models with full attention only, without tiers", replay.Optimum)
	}
	asked = slices.DeleteFunc(asked, func(name string) bool { return name == replay.Optimum })
	if slices.Equal(asked, []string{infinite}) {
		return nil, fmt.Errorf("--policy %s: finds all, whatever else is asked for; name another as well", infinite)
	}
	return asked, nil
}

// describeParts says what a model has.
func describeParts(p replay.Parts) string {
	out := []string{"1 of full attention"}
	if p.Windows > 0 {
		out = append(out, fmt.Sprintf("%d with a window of %s tokens", p.Windows, grouped(p.Window)))
	}
	if p.States > 0 {
		out = append(out, fmt.Sprintf("%d with a state", p.States))
	}
	return strings.Join(out, ", ")
}

// describeRetention says what stays findable.
func describeRetention(p replay.Parts) string {
	switch name := replay.RetentionName(p.Every); name {
	case "all":
		return "all"
	case "ends":
		return "where prompts end, and where they part"
	default:
		return "every " + name + " blocks, where prompts end, and where they part"
	}
}

// partColumns are the kinds of parts that a model has, by their places in replay.Run.
func partColumns(p replay.Parts) (kinds []int) {
	for kind, n := range map[int]int{replay.FullParts: 1, replay.WindowParts: p.Windows, replay.StateParts: p.States} {
		if n > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// amount is a number of blocks for people: its mean and its peak.
func amount(a replay.Amount) string { return grouped(int(a.Mean+0.5)) + "/" + grouped(a.Peak) }

// partsRow is what --json prints with parts.
type partsRow struct {
	Window      int     `json:"window"` // tokens; 0: none
	WindowParts int     `json:"window_parts"`
	StateParts  int     `json:"state_parts"`
	Retain      string  `json:"retain"`
	RetainShare int     `json:"retain_share"` // percent
	FullHits    int     `json:"full_hits"`    // if only blocks of full attention were needed
	Full        *useRow `json:"full,omitempty"`
	Windows     *useRow `json:"windows,omitempty"`
	States      *useRow `json:"states,omitempty"`
}

// useRow is blocks of the parts of a kind.
type useRow struct {
	HeldMean   float64 `json:"held_mean"` // by a request
	HeldPeak   int     `json:"held_peak"`
	CachedMean float64 `json:"cached_mean"` // between requests
	CachedPeak int     `json:"cached_peak"`
}

func newPartsRow(p replay.Parts, run replay.Run) *partsRow {
	if !p.Any() {
		return nil
	}
	row := &partsRow{Window: p.Window, WindowParts: p.Windows, StateParts: p.States,
		Retain: replay.RetentionName(p.Every), RetainShare: p.Share, FullHits: run.Full}
	if run.Policy == infinite {
		return row
	}
	for _, kind := range partColumns(p) {
		u := run.Uses[kind]
		*[]**useRow{&row.Full, &row.Windows, &row.States}[kind] = &useRow{u.Held.Mean, u.Held.Peak, u.Cached.Mean, u.Cached.Peak}
	}
	return row
}
