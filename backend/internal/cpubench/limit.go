package cpubench

// bound is what a trial cannot be faster than.
type bound int

const (
	unbounded bound = iota
	reading
	copying
	multiplying
)

var bounds = [...]struct{ name, unit string }{
	unbounded: {"", "GB/s"}, reading: {"read", "GB/s"}, copying: {"copy", "GB/s"}, multiplying: {"fma", "GFLOP/s"},
}

// probe is one measurement of a limit.
type probe struct {
	amount float64 // bytes, those read and those written, or floating point operations
	run    func()
}

// probe is that of a device; false where the device has none.
func (r *rig) probe(d *device, k bound) (p probe, ok bool) {
	piece, flops := pages(r.flush/4), r.size(2e9, 5e7)
	switch {
	case k == reading:
		return probe{float64(piece), func() {
			mem := r.stored.take(piece)
			together(d.threads, func(i int) { d.read(part(mem, i, d.threads), r.ahead[k]) })
		}}, true
	case k == copying:
		piece = pages(piece / 2)
		return probe{2 * float64(piece), func() {
			from, to := r.stored.take(piece), r.written.take(piece)
			together(d.threads, func(i int) { d.copy(part(to, i, d.threads), part(from, i, d.threads), r.ahead[k]) })
		}}, true
	case k == multiplying && d.fma != nil:
		return probe{float64(flops * d.threads), func() { together(d.threads, func(int) { d.fma(flops) }) }}, true
	}
	return probe{}, false
}

// limits adds trials of the limits themselves, with the instructions of all kernels. Those
// of Go's are what its compiler and its copy reach.
func (r *rig) limits() {
	for _, k := range []bound{reading, copying, multiplying} {
		for _, threads := range r.threads {
			for _, kernels := range r.kernels {
				d := r.device(spec{kernels, threads})
				if p, ok := r.probe(d, k); ok {
					r.add(&trial{name: "limit/" + bounds[k].name, on: d.spec, work: work{amount: p.amount, unit: bounds[k].unit},
						set: func(*device) operation { return operation{call: func(int) error { p.run(); return nil }} }})
				}
			}
		}
	}
}

// tune finds out how far ahead the probes of memory prefetch best here.
func (r *rig) tune() {
	for _, k := range []bound{reading, copying} {
		best := 0.
		p, _ := r.probe(r.home, k)
		tried := [...]int{0, 4096, 8192}
		for i := range r.size(90, 3) {
			old := r.ahead[k]
			r.ahead[k] = tried[i%len(tried)]
			if rate := r.rate(p); rate > best {
				best = rate
			} else {
				r.ahead[k] = old
			}
		}
	}
}
