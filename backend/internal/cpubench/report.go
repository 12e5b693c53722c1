package cpubench

import (
	"flag"
	"os"
	"testing"
)

// Run measures everything and reports it as benchmarks of b, which run once: there is nothing
// left to do for them.
func Run(b *testing.B) {
	r := newRig(b, testing.Short(), chosen(flag.Lookup("test.bench").Value.String()))
	r.list()
	r.plan()
	r.tune()
	r.rounds()
	r.describe(os.Stdout)
	for _, t := range r.trials {
		b.Run(t.String(), func(b *testing.B) {
			for unit, value := range t.metrics() {
				b.ReportMetric(value, unit)
			}
		})
	}
}

// list makes all trials.
func (r *rig) list() {
	r.limits()
	r.attention()
	r.moves()
	r.dispatch()
}

// metrics is what the rounds found, by unit.
func (t *trial) metrics() map[string]float64 {
	rounds, foreign := clean(t.samples)
	seconds := over(rounds, func(i int) float64 { return t.samples[i].seconds })
	out := map[string]float64{"ns/op": seconds * 1e9, "rounds": float64(len(rounds)), "dirty": float64(foreign)}
	if t.work.amount > 0 {
		out[t.work.unit] = t.work.amount / seconds / 1e9
	}
	if t.work.bytes > 0 {
		out["flop/B"] = t.work.flops / t.work.bytes
	}
	if t.limited {
		out["of-limit"] = over(rounds, func(i int) float64 { return t.fraction(t.samples[i]) })
	}
	for _, c := range t.against {
		if len(c.of.samples) > 0 { // else it was not chosen
			pairs, _ := clean(t.samples, c.of.samples)
			out[c.unit] = over(pairs, func(i int) float64 { return c.value(t.samples[i].seconds, c.of.samples[i].seconds) })
		}
	}
	return out
}
