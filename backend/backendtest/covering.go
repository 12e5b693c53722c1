package backendtest

import "slices"

// grid is the axes of a test, each with a number of values, and what a case of it
// costs. A case is one value of each axis.
type grid struct {
	sizes []int
	cost  func(row []int) int
	cheap []int // the cheapest value of each axis
}

// maxStrength is how many axes are covered together at most.
const maxStrength = 3

// together is a value of each of some axes: an axis and its value, twice or three times.
// The axes are in order; what is not used is −1.
type together [2 * maxStrength]int16

// covering returns cases in which every value of each strength axes occurs with every value
// of the others: every value once, every pair of values, or every three. A case costs more than
// the budget only where it has values that cannot be had together for less. It is greedy:
// each case starts from the first values that are still missing and takes, axis by axis,
// the value that adds most new ones within the budget, or at no more than the cheapest
// value's cost where the first ones alone exceed it. The result is the same each time. Cases
// of this kind are known as covering arrays.
func (g grid) covering(strength, budget int) [][]int {
	done := map[together]bool{}
	var rows [][]int
	subsets(len(g.sizes), strength, func(axes []int) {
		row := slices.Clone(g.cheap)
		g.values(axes, row, func() {
			if done[togetherOf(axes, row)] {
				return
			}
			full := g.complete(axes, row, strength, budget, done)
			subsets(len(full), strength, func(axes []int) { done[togetherOf(axes, full)] = true })
			rows = append(rows, full)
		})
	})
	return rows
}

// complete is a case that has the values of some axes.
func (g grid) complete(axes, values []int, strength, budget int, done map[together]bool) []int {
	row := slices.Clone(values) // what is not chosen yet is cheap
	chosen := slices.Clone(axes)
	for axis := range g.sizes {
		if slices.Contains(axes, axis) {
			continue
		}
		best, bestGain, bestCost := g.cheap[axis], -1, 0
		limit := max(budget, g.cost(row))
		for v := range g.sizes[axis] {
			row[axis] = v
			cost := g.cost(row)
			if gain := g.gain(axis, chosen, row, strength, done); cost <= limit && (gain > bestGain || gain == bestGain && cost < bestCost) {
				best, bestGain, bestCost = v, gain, cost
			}
		}
		row[axis] = best
		chosen = append(chosen, axis)
	}
	return row
}

// gain is how many new values an axis makes together with those that are chosen.
func (g grid) gain(axis int, chosen, row []int, strength int, done map[together]bool) (n int) {
	axes := make([]int, strength)
	subsets(len(chosen), strength-1, func(of []int) {
		axes[0] = axis
		for i, c := range of {
			axes[1+i] = chosen[c]
		}
		slices.Sort(axes)
		if !done[togetherOf(axes, row)] {
			n++
		}
	})
	return n
}

// values calls f with every choice of the values of some axes in row, which is as it was
// afterwards.
func (g grid) values(axes, row []int, f func()) {
	if len(axes) == 0 {
		f()
		return
	}
	was := row[axes[0]]
	for v := range g.sizes[axes[0]] {
		row[axes[0]] = v
		g.values(axes[1:], row, f)
	}
	row[axes[0]] = was
}

// subsets calls f with every choice of size of the numbers below n, in order.
func subsets(n, size int, f func(chosen []int)) {
	chosen := make([]int, 0, size)
	var choose func(from int)
	choose = func(from int) {
		if len(chosen) == size {
			f(chosen)
			return
		}
		for i := from; i < n; i++ {
			chosen = append(chosen, i)
			choose(i + 1)
			chosen = chosen[:len(chosen)-1]
		}
	}
	choose(0)
}

// togetherOf is the values of axes, which are in order, in a case.
func togetherOf(axes, row []int) together {
	t := together{-1, -1, -1, -1, -1, -1}
	for i, axis := range axes {
		t[2*i], t[2*i+1] = int16(axis), int16(row[axis])
	}
	return t
}
