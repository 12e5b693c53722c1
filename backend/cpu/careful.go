package cpu

// carefully is k with a mix that is exact, and a result of the same bits where the other's
// is finite.
func (k *kernels) carefully() *kernels {
	c := *k
	c.exact = true
	for dt, mix := range k.mix {
		if mix != nil {
			c.mix[dt] = mixing(mix).carefully
		}
	}
	return &c
}

// mixing is a function of kernels.mix.
type mixing func(acc, shrink, p []float32, stride int, values []stored, scratch []float32)

// carefully mixes one row after another, and of the values runs whose factors are not 0.
func (mix mixing) carefully(acc, shrink, p []float32, stride int, values []stored, scratch []float32) {
	dim, one := values[0].dim, []float32{1}
	for r, by := range shrink {
		row, factors := acc[r*dim:][:dim], p[r*stride:]
		scale(row, by)
		for i, run := range values {
			for from, to := 0, 0; from < run.n; from = to + 1 {
				for to = from; to < run.n && factors[to] != 0; {
					to++
				}
				if to > from {
					values[i] = run.between(from, to)
					mix(row, one, factors[from:to], run.n, values[i:i+1], scratch)
				}
			}
			values[i], factors = run, factors[run.n:]
		}
	}
}

// between is rows [from, to), after which none are known to be wanted.
func (s stored) between(from, to int) stored {
	bytes, words := s.dim*s.dt.Bits()/8, s.dt.Groups(s.dim)
	s.data, s.n, s.ahead, s.later = s.data[from*bytes:to*bytes], to-from, nil, nil
	if words > 0 {
		s.scales = s.scales[from*words : to*words]
	}
	return s
}
