package bench

// dirty is the part of all processors' time that others may use during a measurement.
const dirty = 0.15

// clock is the processor time until some moment.
type clock struct{ used, all, own float64 }

func now() clock {
	used, all := ticks()
	return clock{used * tick, all * tick, ownSeconds()}
}

// foreign is the part of all processors' time since c that others used, the host of a virtual
// machine among them; 0 where the system does not say. It is right to a tick or two.
func (c clock) foreign() float64 { return c.shared(now()) }

func (c clock) shared(end clock) float64 {
	all := end.all - c.all
	if all <= 0 {
		return 0
	}
	return max(0, (end.used-c.used)-(end.own-c.own)) / all
}
