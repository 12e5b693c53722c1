package plan

import "math"

const (
	// itemKeys is what an item costs besides its keys, in keys: to begin, and to write partial
	// rows that are read again.
	itemKeys = 48
	// maxWaves is how many times over a device is filled at most for the sake of balance.
	maxWaves = 4
)

// chunk is how many keys a part of a kind's tiles has at most, on a device that runs that many
// items at once for each KV head. The fewer the better, as long as items do not cost more
// than what the device has to wait for the last ones: of the lengths that fill it once, twice and
// so on, the one that is bounded best.
func (p *planner) chunk(kind Kind, slots int) int {
	total, most := p.measure(kind)
	if len(p.sharing.lengths) == 0 {
		return minKeys
	}
	best, least := 0, math.Inf(1)
	first := ceilDiv(len(p.sharing.lengths), slots)
	for waves := first; waves < first+maxWaves; waves++ {
		room := waves * slots
		if p.fixed {
			room = min(room, len(p.sharing.lengths)+slots-1)
		}
		size := p.sizeFor(total, most, room)
		if bound := bounded(total, p.items(size), size, slots); bound < least {
			best, least = size, bound
		}
		if size == minKeys || p.fixed && room < waves*slots {
			break
		}
	}
	return best
}

// measure notes the lengths of a kind's tiles, and returns their sum and the longest.
func (p *planner) measure(kind Kind) (total, most int) {
	p.sharing.lengths = p.sharing.lengths[:0]
	note := func(n int) {
		p.sharing.lengths = append(p.sharing.lengths, uint32(n)) // of at most as many keys as a context has
		total, most = total+n, max(most, n)
	}
	step := p.cache.tileRows(kind)
	for seq := range p.queries {
		rows := p.rowsOf(seq, kind)
		for row := 0; row < rows; row += step {
			note(p.keysOf(seq, row, min(row+step, rows)).Count())
		}
	}
	for i := range p.sharing.Groups {
		if g := &p.sharing.Groups[i]; p.kindOf(g) == kind {
			for range ceilDiv(g.Rows, step) {
				note(g.End - g.Key)
			}
		}
	}
	return total, most
}

// sizeFor is the least size of parts, in steps, of which there are at most room.
func (p *planner) sizeFor(total, most, room int) int {
	low := max(minKeys, roundUp(ceilDiv(total, room), keyStep)) / keyStep // fewer keys need more parts
	high := ceilDiv(most, keyStep)                                        // no tile is cut
	if cuts := room - len(p.sharing.lengths); cuts > 0 {                  // each is behind as many keys
		high = min(high, ceilDiv(ceilDiv(total, cuts), keyStep))
	}
	high = max(low, high)
	for low < high {
		if mid := (low + high) / 2; p.items(mid*keyStep) <= room {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low * keyStep
}

// items is how many parts there are of at most size keys.
func (p *planner) items(size int) int {
	n, most := uint64(0), uint32(min(uint64(size), math.MaxUint32))
	for _, keys := range p.sharing.lengths {
		n += 1 + uint64((max(keys, 1)-1)/most)
	}
	return int(n)
}

// bounded is the keys that a device has time for until all items are done, at most: whoever
// takes the next item when it is done with one is never more than one item behind the average
// (Graham's list scheduling), nor in more waves than there are.
func bounded(total, items, size, slots int) float64 {
	cost := float64(size + itemKeys)
	average := float64(total+items*itemKeys) / float64(slots)
	return min(average+cost*(1-1/float64(slots)), float64(ceilDiv(items, slots))*cost)
}
