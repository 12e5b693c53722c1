package bench

import (
	"fmt"
	"io"
	"runtime"
	"time"
)

// Describe prints what figures depend on, as lines that benchstat reads.
func (g *GPU[B]) Describe(w io.Writer) {
	line := func(key, value string) { _, _ = fmt.Fprintf(w, "%s: %s\n", key, value) }
	info := g.Backend.Info()
	line("device", fmt.Sprintf("%s, %d units, %.1f GiB", info.Device, info.ComputeUnits, gib(int(info.TotalMemory))))
	for _, about := range g.About {
		line(about[0], about[1])
	}
	line("go", runtime.Version())
	line("date", time.Now().UTC().Format("2 January 2006"))
	line("commit", commitOfSource())
	if g.Emulated {
		line("emulated", "sizes are reduced: figures mean nothing")
	}
	for _, s := range g.states {
		line(s[0], s[1])
	}
}

// DescribeEnd prints the state of the device at this moment.
func (g *GPU[B]) DescribeEnd(w io.Writer) {
	if g.State != nil {
		_, _ = fmt.Fprintf(w, "at the end: %s\n", g.State())
	}
}

// under notes the device's state while it repeats op: what it is at rest says little.
func (g *GPU[B]) under(when string, op *operation) error {
	if g.State == nil {
		return nil
	}
	const settled = 500 * time.Millisecond // clocks and power follow the load
	done, began := make(chan string, 1), time.Now()
	var reading bool
	for {
		if _, err := g.Clock.mean(op, g.Most); err != nil {
			return err
		}
		if !reading && time.Since(began) > settled {
			reading = true
			go func() { done <- g.State() }()
		}
		select {
		case state := <-done:
			g.states = append(g.states, [2]string{when, state})
			return nil
		default:
		}
	}
}

func gib(n int) float64 { return float64(n) / (1 << 30) }
