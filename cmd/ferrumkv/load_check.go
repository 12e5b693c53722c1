package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// maxCallers is the most callers and requests a second: one machine does not have more ports.
const maxCallers = 10_000

// check says what is wrong with the flags.
func (f *loadFlags) check(cmd *cobra.Command) error {
	w, set := f.workload, cmd.Flags().Changed
	for _, c := range []struct {
		wrong bool
		flag  string
		why   string
	}{
		{set("rate") && set("concurrency"), "concurrency", "requests come at a --rate or from callers; leave one out"},
		{set("speed") && (set("rate") || set("concurrency")), "speed", "is for a trace's times; leave it out, or --rate and --concurrency"},
		{len(f.traces) == 0 && !set("rate") && !set("concurrency"), "trace", "say what is sent: --trace PATH; or, of a generated trace, how fast: --rate N or --concurrency N"},
		{set("rate") && !(w.Rate > 0 && w.Rate <= maxCallers), "rate", fmt.Sprintf("accepts more than 0 to %d", maxCallers)},
		{set("concurrency") && (w.Concurrency < 1 || w.Concurrency > maxCallers), "concurrency", fmt.Sprintf("accepts 1 to %d", maxCallers)},
		{!(w.Speed > 0 && w.Speed <= 1e6), "speed", "accepts more than 0 to 1000000"},
		{!(w.Scale > 0 && w.Scale <= 1000), "scale", "accepts more than 0 to 1000"},
		{w.Requests < 0 || set("requests") && w.Requests == 0, "requests", "need more than 0"},
		{w.Duration < 0 || set("duration") && w.Duration == 0, "duration", "need more than 0"},
		{w.MaxPrompt < 0 || set("max-prompt") && w.MaxPrompt == 0, "max-prompt", "need more than 0"},
		{w.MaxOutput < 0 || set("max-tokens") && w.MaxOutput == 0, "max-tokens", "need more than 0"},
		{f.timeout <= 0, "timeout", "need more than 0"},
	} {
		if c.wrong {
			return fmt.Errorf("--%s: %s", c.flag, c.why)
		}
	}
	if len(f.traces) > 0 {
		return noneChanged(cmd, population)
	}
	return nil
}
