package cpu

// withExactMix is k with a mix that is exact, and a result of the same bits where the other's
// is finite.
func (k *kernels) withExactMix() *kernels {
	c := *k
	c.exact = true
	for dt, mix := range k.mix {
		if mix != nil {
			c.mix[dt] = mix.exactMix
		}
	}
	return &c
}

// exactMix mixes one row after another, and of the values runs whose factors are not 0.
func (mix mixing) exactMix(acc, shrink, p []float32, stride int, values []stored, scratch []float32) {
	dim := values[0].dim
	for r, by := range shrink {
		row, factors := acc[r*dim:][:dim], p[r*stride:]
		scale(row, by)
		for i := range values {
			n := values[i].n
			mix.seen(row, factors[:n], values[i:i+1], scratch)
			factors = factors[n:]
		}
	}
}

// noShrink is the factors of rows that are multiplied by theirs already.
var noShrink = [4]float32{1, 1, 1, 1}

// seen mixes those values of one run whose factors are not 0.
func (mix mixing) seen(row, factors []float32, run []stored, scratch []float32) {
	all := run[0]
	for from, to := 0, 0; from < all.n; from = to + 1 {
		for to = from; to < all.n && factors[to] != 0; {
			to++
		}
		if to > from {
			run[0] = all.between(from, to)
			mix(row, noShrink[:1], factors[from:to], all.n, run, scratch)
		}
	}
	run[0] = all
}

// between is rows [from, to), after which none are known to be wanted.
func (s stored) between(from, to int) stored {
	bytes, words := s.pitch()*s.dt.Bits()/8, s.dt.ScaleWords(s.pitch())
	s.data, s.n, s.ahead, s.later = s.data[from*bytes:to*bytes], to-from, nil, nil
	if words > 0 {
		s.scales = s.scales[from*words : to*words]
	}
	return s
}
