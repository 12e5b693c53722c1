package bench

import (
	"fmt"
	"time"
)

// trial is what is measured of the processor, and what was found.
type trial struct {
	name          string
	on            spec
	work          work
	isLimit       bool // and has no other
	reads, writes int  // bytes of the arenas that a call goes through
	// set makes the operands; it is called when there are arenas.
	set     func(d *device) (*operation, error)
	against []comparison

	measurement
	samples []sample
}

func (t *trial) String() string { return fmt.Sprintf("%s/%v", t.name, t.on) }

// fraction is how much of the limit was reached.
func (t *trial) fraction(s sample) float64 { return t.work.amount() / s.seconds / s.limit }

// comparison sets a trial's seconds against another's of the same round.
type comparison struct {
	of    *trial
	unit  string
	value func(own, other float64) float64
}

// speed is how many times as fast a trial is as another one.
func speed(of *trial, what string) comparison {
	return comparison{of, "speed-of-" + what, func(own, other float64) float64 { return other / own }}
}

// prepare makes what measuring needs, and finds out how many calls take long enough.
func (r *processor) prepare(t *trial) error {
	d, err := r.device(t.on)
	if err != nil {
		return err
	}
	t.clock = d.clock
	if t.op, err = t.set(d); err != nil {
		return err
	}
	if !t.isLimit {
		t.limit, t.limited = r.probes(d).probe(t.work.bound)
	}
	least := time.Duration(r.size(int(40*time.Millisecond), int(2*time.Millisecond)))
	t.calls, err = t.clock.calls(t.op, least, 1<<20)
	return err
}

// metrics is what the rounds found, by unit.
func (t *trial) metrics() map[string]float64 {
	rounds, foreign := clean(t.samples)
	seconds := over(rounds, func(i int) float64 { return t.samples[i].seconds })
	out := map[string]float64{"ns/op": seconds * 1e9, "rounds": float64(len(rounds)), "dirty": float64(foreign)}
	if t.work.amount() > 0 {
		unit := "GB/s"
		if t.work.bound == multiplying {
			unit = "GFLOP/s"
		}
		out[unit] = t.work.amount() / seconds / 1e9
	}
	if t.work.bytes > 0 && t.work.flops > 0 {
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
