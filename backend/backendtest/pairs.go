package backendtest

// grid is the axes of a test, each with a number of values, and what a case of it
// costs. A case is one value of each axis.
type grid struct {
	sizes  []int
	cost   func(row []int) int
	cheap  []int // the cheapest value of each axis
	budget int   // cases cost more only where a pair of values cannot be had for less
}

// each returns cases in which every value of every axis occurs.
func (g grid) each() [][]int {
	n := 0
	for _, size := range g.sizes {
		n = max(n, size)
	}
	rows := make([][]int, n)
	for i := range rows {
		for _, size := range g.sizes {
			rows[i] = append(rows[i], i%size)
		}
	}
	return rows
}

// pairs returns cases in which every value of every axis occurs together with
// every value of every other axis. It is greedy: each case starts from the first
// pair that is still missing and takes, axis by axis, the value that adds most
// new pairs within the budget, or at no more than the cheapest value's cost where
// the pair alone exceeds it. The result is the same each time.
func (g grid) pairs() [][]int {
	done := map[[4]int]bool{}
	var rows [][]int
	for a := range g.sizes {
		for b := a + 1; b < len(g.sizes); b++ {
			for va := range g.sizes[a] {
				for vb := range g.sizes[b] {
					if !done[pairKey(a, va, b, vb)] {
						row := g.complete(a, va, b, vb, done)
						visitPairs(row, func(key [4]int) { done[key] = true })
						rows = append(rows, row)
					}
				}
			}
		}
	}
	return rows
}

// complete is a case that contains the given pair.
func (g grid) complete(a, va, b, vb int, done map[[4]int]bool) []int {
	row := append([]int(nil), g.cheap...) // what is not chosen yet counts as cheap
	row[a], row[b] = va, vb
	chosen := []int{a, b}
	for axis := range g.sizes {
		if axis == a || axis == b {
			continue
		}
		best, bestGain, bestCost := g.cheap[axis], -1, 0
		limit := max(g.budget, g.cost(row))
		for v := range g.sizes[axis] {
			row[axis] = v
			gain, cost := 0, g.cost(row)
			for _, other := range chosen {
				if !done[pairKey(axis, v, other, row[other])] {
					gain++
				}
			}
			if cost <= limit && (gain > bestGain || gain == bestGain && cost < bestCost) {
				best, bestGain, bestCost = v, gain, cost
			}
		}
		row[axis] = best
		chosen = append(chosen, axis)
	}
	return row
}

func pairKey(a, va, b, vb int) [4]int {
	if a > b {
		a, va, b, vb = b, vb, a, va
	}
	return [4]int{a, va, b, vb}
}

// visitPairs calls f with every pair of values in a case.
func visitPairs(row []int, f func(key [4]int)) {
	for a := range row {
		for b := a + 1; b < len(row); b++ {
			f(pairKey(a, row[a], b, row[b]))
		}
	}
}
