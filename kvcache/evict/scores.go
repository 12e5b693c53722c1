package evict

import "slices"

// totals is, for the first n tokens, the scores of each head pooled over kernel tokens,
// added up over heads. It is valid until the scratch is next used.
func (s *Scratch) totals(l Layer, n, kernel int) []float64 {
	s.total = slices.Grow(s.total[:0], n)[:n]
	clear(s.total)
	if l.Heads < 1 || len(l.Scores)/l.Heads != l.Len || len(l.Scores)%l.Heads != 0 {
		return s.total
	}
	half := min(usable(kernel)/2, n)
	for h := range l.Heads {
		scores := l.Scores[h*l.Len:][:n]
		if half > 0 {
			s.addPooled(scores, half)
			continue
		}
		for i, v := range scores {
			s.total[i] += number(v)
		}
	}
	for i, v := range s.total {
		if v != v { // infinities of both signs
			s.total[i] = 0
		}
	}
	return s.total
}

// addPooled adds to each token's total the largest score of the tokens up to half before
// and after it. The queue has, of the tokens under the kernel, those that no later one
// exceeds: the first is the largest.
func (s *Scratch) addPooled(scores []float32, half int) {
	queue := slices.Grow(s.order[:0], len(scores))
	first := 0
	for in := range len(scores) + half {
		if in < len(scores) {
			v := number(scores[in])
			for len(queue) > first && number(scores[queue[len(queue)-1]]) <= v {
				queue = queue[:len(queue)-1]
			}
			queue = append(queue, in)
		}
		if i := in - half; i >= 0 {
			if queue[first] < i-half {
				first++
			}
			s.total[i] += number(scores[queue[first]])
		}
	}
	s.order = queue
}

// number is a score, 0 for NaN.
func number(v float32) float64 {
	if v != v {
		return 0
	}
	return float64(v)
}

// best appends to dst, rising, the n of the tokens first, first+1, … that have the highest
// scores; of equals the newer. It looks for the smaller group, those who stay or those
// who go, and takes O(len(scores) log of that): to drop one token is one pass.
func (s *Scratch) best(dst []int, scores []float64, first, n int) []int {
	out := len(scores) - n
	if n <= out {
		for _, i := range s.extremes(scores, n, true) {
			dst = append(dst, first+i)
		}
		return dst
	}
	from := 0
	for _, i := range s.extremes(scores, out, false) {
		dst = run(dst, first+from, first+i)
		from = i + 1
	}
	return run(dst, first+from, first+len(scores))
}

// extremes is the n highest scores' indices, or the n lowest ones', rising. It is valid
// until the scratch is next used.
func (s *Scratch) extremes(scores []float64, n int, highest bool) []int {
	h := heap{slices.Grow(s.order[:0], n), scores, highest}
	for i := range scores {
		switch {
		case len(h.order) < n:
			h.order = append(h.order, i)
			if len(h.order) == n {
				for at := n/2 - 1; at >= 0; at-- {
					h.sink(at)
				}
			}
		case n > 0 && h.yields(h.order[0], i):
			h.order[0] = i
			h.sink(0)
		}
	}
	slices.Sort(h.order)
	s.order = h.order
	return h.order
}

// heap is a choice of tokens, with the one in front that is the first to yield to a better
// one.
type heap struct {
	order   []int
	scores  []float64
	highest bool
}

// yields reports whether token a leaves the choice before b.
func (h *heap) yields(a, b int) bool {
	if h.scores[a] == h.scores[b] {
		return (a < b) == h.highest
	}
	return (h.scores[a] < h.scores[b]) == h.highest
}

// sink moves the token at a place down to where it belongs.
func (h *heap) sink(at int) {
	for {
		child := 2*at + 1
		if child >= len(h.order) {
			return
		}
		if right := child + 1; right < len(h.order) && h.yields(h.order[right], h.order[child]) {
			child = right
		}
		if !h.yields(h.order[child], h.order[at]) {
			return
		}
		h.order[at], h.order[child] = h.order[child], h.order[at]
		at = child
	}
}
