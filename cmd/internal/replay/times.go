package replay

import "slices"

// Times are seconds of all requests of a replay.
type Times struct{ Mean, P50, P90, P99 float64 }

// timesOf sorts them.
func timesOf(all []float64) (t Times) {
	if len(all) == 0 {
		return t
	}
	slices.Sort(all)
	for _, s := range all {
		t.Mean += s / float64(len(all))
	}
	at := func(share float64) float64 { return all[int(share*float64(len(all)-1)+0.5)] }
	t.P50, t.P90, t.P99 = at(0.5), at(0.9), at(0.99)
	return t
}
