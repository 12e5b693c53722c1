package policy

import (
	"cmp"
	"slices"
)

// None of these says anything about a trace: they are relative to the capacity.
const (
	initial = 0.1       // hazard of return in an octave where nothing is known
	weight  = 1.0 / 256 // of what is assumed, in capacities of hits
	memory  = 16        // counts fade over that many capacities of blocks
	trust   = 2         // turnovers after which half of what was learned is believed
)

// fade makes what was counted long ago count less.
func (p *adaptive) fade(span uint64) {
	keep := max(0, 1-float64(span)/float64(memory*p.capacity))
	for c := range p.room {
		p.room[c] *= keep
		p.hits[c] *= keep
	}
}

// rank estimates the hazards of all cells from what was counted, and sorts the cells
// by what they are worth.
//
// The worth of a cell is the index of Gittins (1979): of all later ages at which one
// could give its blocks up, the best ratio of the chance that a block has come back by
// then to the room it is expected to take until it has, or is given up. Products are
// rounded one by one, so that all machines agree.
func (p *adaptive) rank() {
	width, all := p.pooled()
	c := float64(p.capacity)
	w := c * c * weight
	for class := 0; class < cells; class += ages {
		hits, expected := c*weight, c*weight // a class differs from all by a factor, and then by age
		for j := range all {
			hits += p.hits[class+j]
			expected += float64(p.room[class+j] * all[j])
		}
		var back [ages]float64 // chance to return within the octave
		for j := range back {
			h := float64((p.hits[class+j]+float64(w*hits/expected*all[j]))/(p.room[class+j]+w)) * width[j]
			back[j] = h / (1 + h)
		}
		for j := range back {
			best, kept, cost := 0.0, 1.0, 0.0
			for i := j; i < ages; i++ {
				cost += float64(kept * width[i] * (1 - back[i]/2))
				kept *= 1 - back[i]
				best = max(best, (1-kept)/cost)
			}
			p.worth[class+j] = best
		}
	}
	slices.SortStableFunc(p.order[:], func(a, b uint8) int { return cmp.Compare(p.worth[a], p.worth[b]) })
	for i, c := range p.order {
		p.place[c] = uint8(i)
	}
	p.from = 0
}

// pooled is the width of each octave and the hazard in it of all classes together. An
// octave of which nothing is known is like the one before.
func (p *adaptive) pooled() (width, all [ages]float64) {
	c := float64(p.capacity)
	w := c * c * weight
	prior := initial
	for j := range all {
		width[j] = float64(max(1, p.bound(j+1)-p.bound(j)))
		if j == ages-1 {
			width[j] = float64(max(1, p.bound(j)))
		}
		hits, room := 0.0, 0.0
		for i := j; i < cells; i += ages {
			hits += p.hits[i]
			room += p.room[i]
		}
		all[j] = (hits + float64(w*prior/width[j])) / (room + w)
		prior = float64(all[j] * width[j])
	}
	return width, all
}
