package states

import (
	"cmp"
	"slices"
)

// index has the states of each identity in the order of their tokens, and of their names where these are the same. It answers what a radix
// tree would: of all states, those next to where a prompt would be have most of its beginning.
type index map[Identity][]*state

func compare(a, b *state) int {
	if c := slices.Compare(a.Key.Tokens, b.Key.Tokens); c != 0 {
		return c
	}
	return cmp.Compare(a.Key.Name, b.Key.Name)
}

func (x index) add(s *state) {
	list := x[s.Key.Identity]
	at, _ := slices.BinarySearchFunc(list, s, compare)
	x[s.Key.Identity] = slices.Insert(list, at, s)
}

func (x index) remove(s *state) {
	list := x[s.Key.Identity]
	at, found := slices.BinarySearchFunc(list, s, compare)
	if !found {
		return
	}
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(x, s.Key.Identity)
		return
	}
	x[s.Key.Identity] = list
}

// common is how many tokens two lists have in common at their beginning.
func common(a, b []uint32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// place is where tokens are in a list, or would be.
func place(list []*state, tokens []uint32) int {
	at, _ := slices.BinarySearchFunc(list, tokens, func(s *state, t []uint32) int { return slices.Compare(s.Key.Tokens, t) })
	return at
}

// nearest is a state with the most tokens in common with a prompt, and how many: of several the first in order, which is one that has no others if
// there is one. nil: none has the first.
func nearest(list []*state, tokens []uint32) (*state, int) {
	at, most := place(list, tokens), 0
	for _, s := range list[max(at-1, 0):min(at+1, len(list))] { // those next to it
		most = max(most, common(s.Key.Tokens, tokens))
	}
	if most == 0 {
		return nil, 0
	}
	return list[place(list, tokens[:most])], most
}

// nearestWhole is nearest among the states that have no tokens but those in common.
func nearestWhole(list []*state, tokens []uint32) (*state, int) {
	for len(tokens) > 0 {
		at := place(list, tokens)
		if at < len(list) && len(list[at].Key.Tokens) == len(tokens) && slices.Equal(list[at].Key.Tokens, tokens) {
			return list[at], len(tokens)
		}
		if at == 0 {
			break
		}
		n := common(list[at-1].Key.Tokens, tokens) // nothing between has more
		tokens = tokens[:n]
	}
	return nil, 0
}
