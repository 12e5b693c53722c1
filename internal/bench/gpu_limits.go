package bench

import (
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// limits are what the device can do at most.
type limits struct {
	copy, read limit
	matrix     []limit
	host       []limit // to the host, and to the device; none where the device has the host's memory
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
		return l.read.rate()
	case copying:
		return l.copy.rate()
	case multiplying:
		for _, m := range l.matrix {
			if m.dt == dt {
				return m.rate()
			}
		}
		return l.matrix[0].rate()
	case toHost, toDevice:
		for _, h := range l.host {
			if h.does.bound == k {
				return h.rate()
			}
		}
	}
	return 0
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
	for _, l := range []struct {
		to   *limit
		name string
		of   bound
	}{{&g.limits.copy, "copy", copying}, {&g.limits.read, "read", reading}} {
		p, _ := probes.probe(l.of)
		if *l.to, err = g.limit(l.name, work{bytes: p.amount}, p.run); err != nil {
			return err
		}
	}
	return g.measureHost(mem)
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
