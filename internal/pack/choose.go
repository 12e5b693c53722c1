package pack

import (
	"fmt"
	"math"
)

// Ratios of a variant's time to the baseline's: below wins a shape is won, and above loses a variant is not chosen, whatever it
// wins elsewhere. In both cases three of four rounds have to agree.
const wins, loses = 0.97, 1.02

// choose makes Chosen of what was measured, and says of each variant that is not chosen why.
func (r *Results) choose() {
	alive := map[int]bool{}
	for i := range r.Variants {
		v := &r.Variants[i]
		switch {
		case v.Failed != "":
			v.Dropped = v.Failed
		case !v.Done && len(v.Shapes) == 0:
			v.Dropped = endedBefore
		default:
			v.Dropped = v.lacks()
		}
		if v.Dropped == "" {
			alive[i] = true
		}
	}
	r.settle(alive)
	r.Chosen = []string{}
	for i, v := range r.Variants {
		if alive[i] {
			r.Chosen = append(r.Chosen, v.Name)
		}
	}
}

// lacks says why a variant that was measured is not chosen, or nothing. A shape that was not measured is neither won nor lost.
func (v VariantResult) lacks() string {
	best, won := ShapeResult{Ratio: Spread{Median: math.Inf(1)}}, false
	for _, s := range v.Shapes {
		if s.Runs == 0 {
			continue
		}
		if s.lost() {
			return fmt.Sprintf("slower: %.3f of the baseline's time in %s", s.Ratio.Median, s.Name)
		}
		if s.Ratio.Median < best.Ratio.Median {
			best = s
		}
		won = won || s.won()
	}
	switch {
	case won:
		return ""
	case best.Runs == 0:
		return notMeasured + "see its shapes"
	}
	return fmt.Sprintf("wins no shape: %.3f of the baseline's time in %s, after %d rounds, is its best", best.Ratio.Median, best.Name, best.Runs)
}

// won reports whether a variant is faster than the baseline, by enough and surely.
func (s ShapeResult) won() bool {
	return s.Runs >= leastRounds && s.Ratio.Median < wins && s.Ratio.Q3 < 1
}

// lost reports whether it is slower.
func (s ShapeResult) lost() bool {
	return s.Runs >= loserRounds && s.Ratio.Median > loses && s.Ratio.Q1 > 1
}

// settle leaves alive one of the variants that share a shape: the one that is fastest there. Of several such shapes the one
// with the lowest ratio is decided first, as most is gained there.
func (r *Results) settle(alive map[int]bool) {
	for {
		shape, best := r.shared(alive)
		if shape == "" {
			return
		}
		for i := range alive {
			s, ok := r.Variants[i].measured(shape)
			if !ok || i == best {
				continue
			}
			winner, _ := r.Variants[best].measured(shape)
			r.Variants[i].Dropped = fmt.Sprintf("%s is faster in %s: %.3f of the baseline's time, this one %.3f", r.Variants[best].Name, shape, winner.Ratio.Median, s.Ratio.Median)
			delete(alive, i)
		}
	}
}

// shared is the shape with the lowest ratio of those that several variants have, and which variant that is. Of equals the
// first in the list is it.
func (r *Results) shared(alive map[int]bool) (shape string, best int) {
	have := map[string]int{}
	for i := range alive {
		for _, s := range r.Variants[i].Shapes {
			if s.Runs >= leastRounds {
				have[s.Name]++
			}
		}
	}
	least := math.Inf(1)
	for i, v := range r.Variants {
		if !alive[i] {
			continue
		}
		for _, s := range v.Shapes {
			if s.Runs >= leastRounds && have[s.Name] > 1 && s.Ratio.Median < least {
				shape, best, least = s.Name, i, s.Ratio.Median
			}
		}
	}
	return shape, best
}

// measured is what was measured of a shape, if that was enough.
func (v VariantResult) measured(shape string) (ShapeResult, bool) {
	for _, s := range v.Shapes {
		if s.Name == shape && s.Runs >= leastRounds {
			return s, true
		}
	}
	return ShapeResult{}, false
}
