package backendtest

import "github.com/ferrumkv/ferrumkv/internal/testsize"

// Grid is how much of the attention grid is tried: the cross product of query heads and KV
// heads, head dims, layouts and block sizes, contexts, queries, masks, outputs and formats has
// millions of cases. All other cases of the suite, small ones of every mask, format
// and border, are always tried.
type Grid int

const (
	// Pairs is the default: every two values of two axes meet in some case.
	Pairs Grid = iota
	// Triples has every three values of three axes meet: thousands of cases.
	Triples
	// Values has every value of every axis once, the long contexts and the long chunks among
	// them, in cases that are otherwise small. It is for devices that are slow.
	Values
	// NoGrid leaves the grid out.
	NoGrid
)

// The multiply-adds of a case of the grid, but where its values alone take more.
const (
	gridBudget  = 80e6
	smallBudget = 1e6
)

// strength is how many axes are covered together.
func (g Grid) strength() int { return map[Grid]int{Pairs: 2, Triples: 3, Values: 1}[g] }

// rows are the cases.
func (g Grid) rows(of grid) [][]int {
	switch g {
	case NoGrid:
		return nil
	case Values:
		return of.covering(1, smallBudget)
	}
	return of.covering(g.strength(), gridBudget)
}

// full is the grid that is tried instead where everything is (see package testsize).
func (g Grid) full() Grid {
	if !testsize.Full() {
		return g
	}
	return map[Grid]Grid{NoGrid: Values, Values: Pairs, Pairs: Triples, Triples: Triples}[g]
}
