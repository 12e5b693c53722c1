package tokenizer

import "slices"

// symbol is a part of a text that is, or may become a part of, a token.
type symbol struct {
	begin, end int // in the text
	token      int // -1: none
}

// pair is a symbol and the next one.
type pair struct {
	prev, next int // numbers of the symbols beside this one
	token      int // what the two become
	rank       float64
	joins      bool
}

// before reports whether p is joined before q: the lowest rank first, of equal ones the leftmost.
func (p pair) before(q pair) bool {
	return p.joins && (!q.joins || p.rank < q.rank || p.rank == q.rank && p.prev < q.prev)
}

// merge joins neighbours, the pair of the lowest rank first, until no pair has one,
// in n log n steps for n symbols. It reuses symbols for its result.
func merge(symbols []symbol, rank func(left, right symbol) (token int, rank float64, ok bool)) []symbol {
	n := len(symbols)
	pairs := make([]pair, n)
	winners := make([]int, 2*n) // a tournament of the pairs, which are from n on: i is the winner of 2i and 2i+1
	play := func(left int) {
		p := &pairs[left]
		if p.joins = p.next < n; p.joins {
			p.token, p.rank, p.joins = rank(symbols[left], symbols[p.next])
		}
		for i := (n + left) / 2; i > 0; i /= 2 {
			winners[i] = winners[2*i]
			if other := winners[2*i+1]; pairs[other].before(pairs[winners[i]]) {
				winners[i] = other
			}
		}
	}
	for i := range symbols {
		pairs[i], winners[n+i] = pair{prev: i - 1, next: i + 1}, i
	}
	for i := range symbols {
		play(i)
	}
	for n > 0 && pairs[winners[1]].joins {
		left := winners[1]
		p, right := &pairs[left], pairs[left].next
		symbols[left].end, symbols[left].token = symbols[right].end, p.token
		symbols[right].end = -1 // gone
		p.next, pairs[right].next = pairs[right].next, n
		if p.next < n {
			pairs[p.next].prev = left
		}
		for _, changed := range []int{p.prev, left, right} {
			if changed >= 0 {
				play(changed)
			}
		}
	}
	return slices.DeleteFunc(symbols, func(s symbol) bool { return s.end < 0 })
}
