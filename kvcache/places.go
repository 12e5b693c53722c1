package kvcache

import "slices"

// places are the positions of a sequence's tokens. Token i is at position i until Keep
// drops tokens before it and leaves its key as it is.
type places struct {
	next  int     // position of the next token
	lists [][]int // one for all layers, or one for each; none: token i is at position i
}

// at is the position of a token in a list's layers.
func (p *places) at(list, i int) int {
	if p.lists == nil {
		return i
	}
	return p.lists[min(list, len(p.lists)-1)][i]
}

// grow adds n tokens at the next positions.
func (p *places) grow(n int) {
	for i := range p.lists {
		for j := range n {
			p.lists[i] = append(p.lists[i], p.next+j)
		}
	}
	p.next += n
}

// truncate keeps the first n tokens. The next one goes behind the last.
func (p *places) truncate(n int) {
	if p.lists == nil || n == 0 {
		p.lists, p.next = nil, n
		return
	}
	p.next = 0
	for i, list := range p.lists {
		p.lists[i] = list[:n]
		p.next = max(p.next, list[n-1]+1)
	}
}

// shift drops count tokens from begin on and moves those behind back by as many.
func (p *places) shift(begin, count, tokens int) {
	for i, list := range p.lists {
		list = append(list[:begin], list[begin+count:]...)
		for j := begin; j < len(list); j++ {
			list[j] -= count
		}
		p.lists[i] = list
	}
	p.next -= count
	if p.lists == nil {
		p.next = tokens
	}
}

// keep drops the tokens that no list names.
func (p *places) keep(kept [][]int) {
	next := p.next
	lists := make([][]int, len(kept))
	if len(kept) < len(p.lists) {
		lists = make([][]int, len(p.lists))
	}
	for l := range lists {
		from := kept[min(l, len(kept)-1)]
		lists[l] = make([]int, len(from))
		for i, token := range from {
			lists[l][i] = p.at(l, token)
		}
	}
	*p = places{next: next, lists: lists}
}

func (p *places) clone() places {
	out := places{next: p.next}
	for _, list := range p.lists {
		out.lists = append(out.lists, slices.Clone(list))
	}
	return out
}
