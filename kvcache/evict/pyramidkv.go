package evict

import (
	"fmt"
	"math/bits"
)

// PyramidKV is SnapKV with budgets that fall from layer to layer, because attention is narrower in
// the last layers (arXiv:2406.02069).
type PyramidKV struct {
	SnapKV
	// Beta is the slope of the budgets: the last layer has 1/Beta of the average (β in the paper,
	// 20 in its experiments), and the first one twice the average less that. 0 is the steepest
	// slope that leaves each layer something: layer i of L has 2(L-i)/(L(L+1)) of the total.
	Beta int
}

func (p PyramidKV) String() string {
	return fmt.Sprintf("pyramidkv(sinks=%d,window=%d,kernel=%d,beta=%d)", p.Sinks, p.Window, p.Kernel, p.Beta)
}

// Validate is an ErrPolicy for negative settings and an even kernel.
func (p PyramidKV) Validate() error {
	if p.Beta > maxBeta {
		return ErrPolicy{Policy: "pyramidkv", Field: "Beta", Value: p.Beta, Why: fmt.Sprintf("need 0 to %d", maxBeta)}
	}
	if err := check("pyramidkv", setting{"Beta", p.Beta, 0}); err != nil {
		return err
	}
	return p.validate("pyramidkv")
}

const (
	maxBeta   = 1 << 20
	maxLayers = 1 << 20 // more than any model has; they would overflow Budget's products
)

// Budgets gives each layer its Budget.
func (p PyramidKV) Budgets(dst []int, total, layers int) []int {
	line, over := p.line(total, layers)
	for i := range layers {
		dst = append(dst, line.at(i, over))
	}
	return dst
}

// Budget is the budget of one layer. Budgets fall linearly and are rounded down; the first layers
// get one of the remaining tokens each. The slope is reduced when the last layer would get fewer
// tokens than always stay (at least one), as far as the total allows. It is 0 for a layer that does
// not exist; more than 2^20 layers have equal budgets.
func (p PyramidKV) Budget(total, layer, layers int) int {
	if layer < 0 || layer >= layers {
		return 0
	}
	line, over := p.line(total, layers)
	return line.at(layer, over)
}

// line is floor + total*(first - i*fall)/div for layer i, rounded down.
type line struct {
	floor            int
	total            uint64
	first, fall, div uint64
}

func (l line) at(layer, over int) int {
	high, low := bits.Mul64(l.total, l.first-uint64(layer)*l.fall)
	budget, _ := bits.Div64(high, low, l.div)
	n := l.floor + int(budget)
	if layer < over {
		n++
	}
	return n
}

// line is the line of budgets, and how many tokens rounding leaves over.
func (p PyramidKV) line(total, layers int) (l line, over int) {
	total = max(total, 0)
	n := uint64(max(layers, 1))
	if n > maxLayers || n == 1 {
		return line{total: uint64(total), first: 1, div: n}, int(uint64(total) % n)
	}
	if beta := uint64(min(max(p.Beta, 0), maxBeta)); beta == 0 {
		l = line{total: uint64(total), first: 2 * n, fall: 2, div: n * (n + 1)}
	} else {
		l = line{total: uint64(total), first: (2*beta - 1) * (n - 1), fall: 2 * (beta - 1), div: beta * n * (n - 1)}
	}
	least := min(max(usable(p.Sinks)+usable(p.Window), 1), total/int(n))
	if l.at(layers-1, 0) < least { // the line to least: each has that, and a share of the rest
		l = line{floor: least, total: uint64(total - least*int(n)), first: 2 * (n - 1), fall: 2, div: n * (n - 1)}
	}
	over = total
	for i := range layers {
		over -= l.at(i, 0)
	}
	return l, over
}

// even appends what each layer has of a total that is divided evenly; what is left over
// goes to the first layers.
func even(dst []int, total, layers int) []int {
	return PyramidKV{Beta: 1}.Budgets(dst, total, layers)
}
