package cpubench

import (
	"fmt"
	"time"
)

// trial is what is measured, and what was found.
type trial struct {
	name          string
	on            spec
	work          work
	reads, writes int // bytes of the arenas that a call goes through
	// set makes the operands; it is called when there are arenas.
	set     func(d *device) operation
	against []comparison

	operation
	limit   probe
	limited bool // there is a limit
	calls   int  // that are timed at once
	samples []sample
}

func (t *trial) String() string { return fmt.Sprintf("%s/%v", t.name, t.on) }

// work is what a call does, and what bounds it.
type work struct {
	amount float64 // bytes or floating point operations
	unit   string
	bound  bound
	flops  float64 // floating point operations,
	bytes  float64 // and the bytes that they take; 0 where there are none
}

// operation is a call. aim, where it is set, gives the next n calls their memory.
type operation struct {
	aim  func(n int)
	call func(turn int) error
}

// sample is one measurement.
type sample struct {
	seconds float64 // of a call
	limit   float64 // amounts a second, of the probe beside it; 0: none
	foreign float64 // see clock
}

// fraction is how much of the limit was reached.
func (t *trial) fraction(s sample) float64 { return t.work.amount / s.seconds / s.limit }

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
func (r *rig) prepare(t *trial) {
	d := r.device(t.on)
	t.operation = t.set(d)
	t.limit, t.limited = r.probe(d, t.work.bound)
	least := time.Duration(r.size(int(40*time.Millisecond), int(2*time.Millisecond)))
	for t.calls = 1; ; t.calls *= 2 {
		took := r.time(t)
		if total := took * float64(t.calls); total >= least.Seconds()/2 || t.calls >= 1<<20 {
			t.calls = max(int(least.Seconds()/took), 1)
			return
		}
	}
}

// measure takes a sample: the calls, and the limit before and after them.
func (r *rig) measure(t *trial) {
	start, s := now(), sample{}
	if t.limited {
		s.limit = r.rate(t.limit)
	}
	s.seconds = r.time(t)
	if t.limited {
		s.limit = (s.limit + r.rate(t.limit)) / 2
	}
	s.foreign = start.foreign()
	t.samples = append(t.samples, s)
}

// rate is the amounts a second of a probe.
func (r *rig) rate(p probe) float64 {
	start := time.Now()
	p.run()
	return p.amount / time.Since(start).Seconds()
}

// time is the seconds of a call.
func (r *rig) time(t *trial) float64 {
	if t.aim != nil {
		t.aim(t.calls)
	}
	start := time.Now()
	for turn := range t.calls {
		if err := t.call(turn); err != nil {
			r.must(err)
		}
	}
	return time.Since(start).Seconds() / float64(t.calls)
}
