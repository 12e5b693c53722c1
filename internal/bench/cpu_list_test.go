package bench

// limitNames are those of the probes.
var limitNames = [...]string{reading: "read", copying: "copy", multiplying: "fma"}

// run makes all trials that are chosen, and measures them.
func (r *processor) run() error {
	r.list()
	if err := r.plan(); err != nil {
		return err
	}
	if err := r.probes(r.home).tune(r.home.clock, r.size(90, 3)); err != nil {
		return err
	}
	return r.rounds()
}

// list makes all trials.
func (r *processor) list() {
	r.limits()
	r.attention()
	r.moves()
	r.dispatch()
}

// limits adds trials of the limits themselves, with the instructions of all kernels. Those
// of Go's are what its compiler and its copy reach.
func (r *processor) limits() {
	for _, k := range []bound{reading, copying, multiplying} {
		for _, threads := range r.threads {
			for _, kernels := range r.kernels {
				if k == multiplying && instructionsOf(kernels).fma == nil {
					continue
				}
				t := &trial{name: "limit/" + limitNames[k], on: spec{kernels, threads}, work: work{bound: k}, isLimit: true}
				t.set = func(d *device) (*operation, error) {
					p, _ := r.probes(d).probe(k)
					if k == multiplying {
						t.work.flops = p.amount
					} else {
						t.work.bytes = p.amount
					}
					return each(p.run), nil
				}
				r.add(t)
			}
		}
	}
}
