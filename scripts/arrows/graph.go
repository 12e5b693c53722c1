package main

import (
	"slices"
)

// Arrow is the use of a file's name in another file.
type Arrow struct{ From, To, Name string }

// Graph is the files of a package and the arrows between them, each once.
type Graph struct {
	Files  []string
	Arrows []Arrow
}

// from is how many arrows come from a file.
func (g *Graph) from(file string) (n int) {
	for _, a := range g.Arrows {
		if a.From == file {
			n++
		}
	}
	return n
}

// weights are the arrows between each pair of files.
func (g *Graph) weights() [][]int {
	at := map[string]int{}
	for i, f := range g.Files {
		at[f] = i
	}
	w := make([][]int, len(g.Files))
	for i := range w {
		w[i] = make([]int, len(g.Files))
	}
	for _, a := range g.Arrows {
		w[at[a.From]][at[a.To]]++
	}
	return w
}

// Order is the files, those that are used first, such that few arrows run to a later file: no
// file can be moved to another place with fewer, from several beginnings. (The best of all orders is
// more than can be computed.)
func (g *Graph) Order() []string {
	w := g.weights()
	n := len(g.Files)
	var best []int
	least := -1
	for shift := range max(n, 1) {
		order := make([]int, n)
		for i := range order {
			order[i] = (i + shift) % n
		}
		settle(order, w)
		if up := backward(order, w); least < 0 || up < least {
			least, best = up, order
		}
	}
	files := make([]string, n)
	for i, f := range best {
		files[i] = g.Files[f]
	}
	return files
}

// settle moves files to better places until there are none.
func settle(order []int, w [][]int) {
	for better := true; better; {
		better = false
		for from := range order {
			if to := place(order, w, from); to != from {
				f := order[from]
				order = slices.Insert(slices.Delete(order, from, from+1), to, f)
				better = true
			}
		}
	}
}

// place is where the file at a place is best moved to; that place where nothing is gained.
func place(order []int, w [][]int, from int) int {
	f, best, at := order[from], 0, from
	for _, step := range []int{-1, 1} {
		gain := 0
		for to := from + step; to >= 0 && to < len(order); to += step {
			other := order[to]
			if step < 0 { // f comes before other
				gain += w[other][f] - w[f][other]
			} else {
				gain += w[f][other] - w[other][f]
			}
			if gain > best {
				best, at = gain, to
			}
		}
	}
	return at
}

// backward is how many arrows run to a later file.
func backward(order []int, w [][]int) (n int) {
	for i, f := range order {
		for _, later := range order[i+1:] {
			n += w[f][later]
		}
	}
	return n
}

// Back is the arrows that run to a later file of an order.
func (g *Graph) Back(order []string) (back []Arrow) {
	for _, a := range g.Arrows {
		if slices.Index(order, a.From) < slices.Index(order, a.To) {
			back = append(back, a)
		}
	}
	return back
}
