package metrics

import (
	"math"
	"slices"
	"sync"
)

// Histogram counts observations in buckets. It is safe for concurrent use; the zero value has one bucket.
type Histogram struct {
	mu     sync.Mutex // held for a few instructions: so the sum is that of the counts
	bounds []float64
	counts []uint64
	sum    float64
}

// NewHistogram returns a histogram whose buckets end at bounds, each inclusive, and one for what is above all of them. The order of bounds does not
// matter.
func NewHistogram(bounds ...float64) *Histogram {
	bounds = slices.DeleteFunc(slices.Clone(bounds), func(b float64) bool { return math.IsNaN(b) || math.IsInf(b, 0) })
	slices.Sort(bounds)
	return &Histogram{bounds: slices.Compact(bounds)}
}

// Observe counts v. It ignores NaN and infinities, after which the sum would never be a number again. After the first call it allocates nothing.
func (h *Histogram) Observe(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	i, _ := slices.BinarySearch(h.bounds, v)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		h.counts = make([]uint64, len(h.bounds)+1)
	}
	h.counts[i]++
	h.sum += v
}

// Snapshot returns what was observed until now; of a nil histogram, nothing.
func (h *Histogram) Snapshot() Distribution {
	if h == nil {
		return Distribution{}
	}
	counts := make([]uint64, len(h.bounds)+1)
	h.mu.Lock()
	defer h.mu.Unlock()
	copy(counts, h.counts)
	return Distribution{Bounds: h.bounds, Counts: counts, Sum: h.sum}
}

// Distribution is the observations of a histogram at one moment.
type Distribution struct {
	Bounds []float64 // where buckets end, inclusive, finite, rising; must not be changed
	Counts []uint64  // of each bucket alone, and of what is above the last bound
	Sum    float64
}

// Count is the number of observations.
func (d Distribution) Count() (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// rising reports whether bounds are as Bounds says.
func (d *Distribution) rising() bool {
	for i, b := range d.Bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= d.Bounds[i-1] {
			return false
		}
	}
	return true
}
