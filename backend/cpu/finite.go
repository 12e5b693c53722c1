package cpu

import (
	"math"
	"sync/atomic"
)

// firstRow is the first row of a call that is not finite, in the call's order,
// whichever worker finds it. Rows are numbered [rows, keys and values, heads].
type firstRow struct{ before atomic.Int64 } // rows that are left to look at

func (f *firstRow) reset() { f.before.Store(math.MaxInt64) }

// look reports whether rows of dim elements are finite, which have numbers from first on, and
// remembers the first that is not.
func (f *firstRow) look(k *kernels, first int, rows []float32, dim int) bool {
	if k.finite(rows) {
		return true
	}
	for finite(rows[:dim]) {
		first, rows = first+1, rows[dim:]
	}
	for {
		before := f.before.Load()
		if int64(first) >= before || f.before.CompareAndSwap(before, int64(first)) {
			return false
		}
	}
}

// found is that row, if there is one: its place, what it is, and of which head.
func (f *firstRow) found(heads int) (row int, name string, head int, ok bool) {
	number := f.before.Load()
	if number == math.MaxInt64 {
		return 0, "", 0, false
	}
	name = "key"
	side := int(number) % (2 * heads)
	if side >= heads {
		name = "value"
	}
	return int(number) / (2 * heads), name, side % heads, true
}

// bound brings what is beyond a magnitude, infinities included, to it. NaN stays.
func bound(x []float32, most float32) {
	for i, v := range x {
		if v > most {
			x[i] = most
		} else if v < -most {
			x[i] = -most
		}
	}
}

// finite reports whether all values are.
func finite(x []float32) bool {
	for _, v := range x {
		if math.Float32bits(v)&^(1<<31) >= 0x7f800000 {
			return false
		}
	}
	return true
}
