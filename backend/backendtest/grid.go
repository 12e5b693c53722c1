package backendtest

import "github.com/ferrumkv/ferrumkv/internal/testutil/testsize"

// Grid is how many cases of the attention grid are tested. The grid is the cross product of query
// heads and KV heads, head dims, layouts and block sizes, contexts, queries, masks, outputs and
// formats, millions of cases. The other cases of the suite, small ones of every mask, format and
// edge, are always tested.
type Grid int

const (
	// Pairs is the default: every pair of values of two axes is in some case.
	Pairs Grid = iota
	// Triples has every triple of values of three axes in some case: thousands of cases.
	Triples
	// Values has every value of every axis once, including long contexts and long chunks, in cases
	// that are small otherwise. It is for slow devices.
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
