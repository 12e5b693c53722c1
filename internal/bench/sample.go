package bench

// measurement is calls of an operation, and the probe of what bounds them.
type measurement struct {
	clock   Clock
	op      *operation
	calls   int // that are timed at once
	limit   probe
	limited bool // there is a limit
}

// sample is one measurement.
type sample struct {
	seconds float64 // of a call
	limit   float64 // amounts a second, of the probe beside it; 0: none
	foreign float64 // see foreign
}

// sample takes the time of the calls, and the limit before and after them: a machine that is
// busy for a while is busy for both.
func (m *measurement) sample() (s sample, err error) {
	start := now()
	var before, after float64
	if m.limited {
		if before, err = m.clock.rate(m.limit); err != nil {
			return s, err
		}
	}
	if s.seconds, err = m.clock.mean(m.op, m.calls); err != nil {
		return s, err
	}
	if m.limited {
		if after, err = m.clock.rate(m.limit); err != nil {
			return s, err
		}
	}
	s.limit, s.foreign = (before+after)/2, start.foreign()
	return s, nil
}
