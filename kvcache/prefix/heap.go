package prefix

// less is the order of a heap's elements: the smallest is at its top.
func (d deadline) less(o deadline) bool { return d.at < o.at || d.at == o.at && d.id < o.id }

// push and pop are a binary heap without the boxes of container/heap, so that an
// element on its way allocates nothing.
func push[S ~[]E, E interface{ less(E) bool }](heap *S, e E) {
	h := append(*heap, e)
	*heap = h
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].less(h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func pop[S ~[]E, E interface{ less(E) bool }](heap *S) E {
	h := *heap
	top, last := h[0], len(h)-1
	h[0] = h[last]
	var zero E
	h[last] = zero
	h = h[:last]
	*heap = h
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].less(h[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
