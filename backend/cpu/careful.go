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
type mixing func(acc, shrink, p []float32, stride int, values stored, scratch []float32)

// carefully mixes one row after another, and of the values runs whose factors are not 0.
func (mix mixing) carefully(acc, shrink, p []float32, stride int, values stored, scratch []float32) {
	dim, n, one := values.dim, values.rows(), []float32{1}
	for r, by := range shrink {
		row, factors := acc[r*dim:][:dim], p[r*stride:][:n]
		scale(row, by)
		for from, to := 0, 0; from < n; from = to + 1 {
			for to = from; to < n && factors[to] != 0; {
				to++
			}
			if to > from {
				mix(row, one, factors[from:to], n, values.between(from, to), scratch)
			}
		}
	}
}

// between is rows [from, to), after which none are known to be wanted.
func (s stored) between(from, to int) stored {
	bytes, words := s.dim*s.dt.Bits()/8, s.dt.Groups(s.dim)
	s.data, s.ahead = s.data[from*bytes:to*bytes], nil
	if words > 0 {
		s.scales = s.scales[from*words : to*words]
	}
	return s
}
