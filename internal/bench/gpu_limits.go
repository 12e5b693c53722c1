package bench

import (
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// limits are what the device can do at most.
type limits struct {
	copy   limit
	read   []limit
	matrix []limit
	host   []limit // to the host, and to the device; none where the device has the host's memory
}

// limit is what nothing on the device is faster than.
type limit struct {
	name  string
	dt    backend.DType // of matrix products
	does  work
	times []float64 // seconds, the shortest first
}

// rate is bytes or floating point operations a second.
func (l limit) rate() float64 {
	if l.times == nil {
		return 0
	}
	return l.does.amount() / quantile(l.times, 0.5)
}

// rate is that of a bound; 0: there is none. Matrix products are of dt, and of f16 where there
// is no probe for dt.
func (l limits) rate(k bound, dt backend.DType) float64 {
	switch k {
	case reading:
		return greatest(l.read)
	case copying:
		return l.copy.rate()
	case multiplying:
		if of := ofType(l.matrix, dt); len(of) > 0 {
			return greatest(of)
		}
		return greatest(ofType(l.matrix, l.matrix[0].dt))
	case toHost, toDevice:
		for _, h := range l.host {
			if h.does.bound == k {
				return h.rate()
			}
		}
	}
	return 0
}

// greatest is the rate of the best of several probes.
func greatest(of []limit) (rate float64) {
	for _, l := range of {
		rate = max(rate, l.rate())
	}
	return rate
}

// ofType is the limits of matrix products of a type.
func ofType(all []limit, dt backend.DType) (of []limit) {
	for _, l := range all {
		if l.dt == dt {
			of = append(of, l)
		}
	}
	return of
}

// measureLimits times copies, reading, products in registers, and copies to the host and back.
func (g *GPU[B]) measureLimits() (err error) {
	mem := g.memory()
	defer func() { err = errors.Join(err, mem.close()) }()
	out := mem.constant(backend.F32, 1, 0)
	if mem.err != nil {
		return mem.err
	}
	for _, dt := range g.Matrix {
		run, flops, err := g.Multiply(dt, out, g.size(1<<14, 2))
		if err != nil {
			return err
		}
		l, err := g.limit("matrix-"+dt.String(), work{flops: flops, bound: multiplying}, run)
		if err != nil {
			return err
		}
		l.dt = dt
		g.limits.matrix = append(g.limits.matrix, l)
	}
	probes := deviceProbes[B]{be: g.Backend, stream: g.Stream, big: mem.filled(backend.F32, g.size(1<<28, 1<<12))}
	if mem.err != nil {
		return mem.err
	}
	probes.read = func() error { return g.Read(probes.big, out) }
	p, _ := probes.probe(copying)
	if g.limits.copy, err = g.limit("copy", work{bytes: p.amount}, p.run); err != nil {
		return err
	}
	p, _ = probes.probe(reading)
	read, err := g.limit("read", work{bytes: p.amount}, p.run)
	if err != nil {
		return err
	}
	g.limits.read = []limit{read}
	if err := g.measureProbes(probes.big, out); err != nil {
		return err
	}
	return g.measureHost(mem)
}

// measureProbes times what this device has besides.
func (g *GPU[B]) measureProbes(big, out B) error {
	if g.Probes == nil {
		return nil
	}
	all, err := g.Probes(big, out)
	if err != nil {
		return err
	}
	for _, p := range all {
		does := work{bytes: p.Bytes, flops: p.Flops}
		if p.Flops > 0 {
			does.bound = multiplying
		}
		l, err := g.limit(p.Name, does, p.Enqueue)
		if err != nil {
			return err
		}
		if l.dt = p.Type; p.Flops > 0 {
			g.limits.matrix = append(g.limits.matrix, l)
		} else {
			g.limits.read = append(g.limits.read, l)
		}
	}
	return nil
}

// limit measures a limit, and the device's state meanwhile.
func (g *GPU[B]) limit(name string, does work, run func() error) (limit, error) {
	l, op := limit{name: name, does: does}, each(run)
	if err := g.under("during "+name, op); err != nil {
		return l, err
	}
	n, err := g.calls(op)
	for range g.size(51, 1) {
		seconds, failed := g.Clock.mean(op, n)
		err = errors.Join(err, failed)
		l.times = append(l.times, seconds)
	}
	slices.Sort(l.times)
	return l, err
}
