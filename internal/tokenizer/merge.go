package tokenizer

import (
	"cmp"
	"container/heap"
	"slices"
)

// symbol is a part of a text that is, or may become a part of, a token.
type symbol struct {
	begin, end int // in the text
	token      int // -1: none
}

// join is two neighbours that may become one symbol.
type join struct {
	rank     float64 // the lowest first
	left     int     // number of the left symbol
	mid, end int     // where the two ended when they were found
	token    int
}

// joins is a heap: of equal ranks the leftmost comes first.
type joins []join

func (h joins) Len() int { return len(h) }
func (h joins) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].rank, h[j].rank), h[i].left-h[j].left) < 0
}
func (h joins) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *joins) Push(x any)   { *h = append(*h, x.(join)) }
func (h *joins) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	*h = (*h)[:last]
	return j
}

// merge joins neighbours, the pair of the lowest rank first, until no pair has one,
// in n log n steps for n symbols. It reuses symbols for its result.
func merge(symbols []symbol, rank func(left, right symbol) (token int, rank float64, ok bool)) []symbol {
	links := make([]struct{ prev, next int }, len(symbols))
	var h joins
	offer := func(left int) {
		if left < 0 || links[left].next == len(symbols) {
			return
		}
		l, r := symbols[left], symbols[links[left].next]
		if token, rank, ok := rank(l, r); ok {
			heap.Push(&h, join{rank, left, l.end, r.end, token})
		}
	}
	for i := range symbols {
		links[i].prev, links[i].next = i-1, i+1
	}
	for i := range symbols {
		offer(i)
	}
	for h.Len() > 0 {
		j := heap.Pop(&h).(join)
		l, right := &symbols[j.left], links[j.left].next
		if l.end != j.mid || right == len(symbols) || symbols[right].end != j.end {
			continue // one of the two has been joined since
		}
		l.end, l.token = j.end, j.token
		symbols[right].end = -1 // gone
		after := links[right].next
		links[j.left].next = after
		if after < len(symbols) {
			links[after].prev = j.left
		}
		offer(links[j.left].prev)
		offer(j.left)
	}
	return slices.DeleteFunc(symbols, func(s symbol) bool { return s.end < 0 })
}
