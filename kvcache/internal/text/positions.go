package text

import "slices"

// Positions are those of a sequence's tokens. Token i is at position i until Keep
// drops tokens before it and leaves its key as it is.
type Positions struct {
	Next  int     // position of the next token
	lists [][]int // one for all layers, or one for each; none: token i is at position i
}

// At is the position of a token in a list's layers.
func (p *Positions) At(list, i int) int {
	if p.lists == nil {
		return i
	}
	return p.lists[min(list, len(p.lists)-1)][i]
}

// grow adds n tokens at the next positions.
func (p *Positions) grow(n int) {
	for i := range p.lists {
		for j := range n {
			p.lists[i] = append(p.lists[i], p.Next+j)
		}
	}
	p.Next += n
}

// truncate keeps the first n tokens. The next one goes after the last.
func (p *Positions) truncate(n int) {
	if p.lists == nil || n == 0 {
		p.lists, p.Next = nil, n
		return
	}
	p.Next = 0
	for i, list := range p.lists {
		p.lists[i] = list[:n]
		p.Next = max(p.Next, list[n-1]+1)
	}
}

// shift drops count tokens from begin on and moves those after them back by as many.
func (p *Positions) shift(begin, count, tokens int) {
	for i, list := range p.lists {
		list = append(list[:begin], list[begin+count:]...)
		for j := begin; j < len(list); j++ {
			list[j] -= count
		}
		p.lists[i] = list
	}
	p.Next -= count
	if p.lists == nil {
		p.Next = tokens
	}
}

// Keep drops the tokens that no list names.
func (p *Positions) Keep(kept [][]int) {
	next := p.Next
	lists := make([][]int, len(kept))
	if len(kept) < len(p.lists) {
		lists = make([][]int, len(p.lists))
	}
	for l := range lists {
		from := kept[min(l, len(kept)-1)]
		lists[l] = make([]int, len(from))
		for i, token := range from {
			lists[l][i] = p.At(l, token)
		}
	}
	*p = Positions{Next: next, lists: lists}
}

// Clone is a copy that changes for itself.
func (p *Positions) Clone() Positions {
	return Placed(p.Next, p.lists)
}

// Placed are positions in lists, of which the next one is next.
func Placed(next int, lists [][]int) Positions {
	p := Positions{Next: next}
	for _, list := range lists {
		p.lists = append(p.lists, slices.Clone(list))
	}
	return p
}

// List is one of them.
func (p *Positions) List(i int) []int { return p.lists[i] }

// Lists is how many lists of positions there are: 0 where token i is at position i.
func (p *Positions) Lists() int { return len(p.lists) }
