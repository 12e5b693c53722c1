package load

import "slices"

// Quantiles are exact, by nearest rank: P90 is the least value that at least 90 % of the values do not exceed.
type Quantiles struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// quantilesOf sorts values.
func quantilesOf(values []float64) Quantiles {
	n := len(values)
	if n == 0 {
		return Quantiles{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	at := func(percent int) float64 { return values[(n*percent+99)/100-1] }
	return Quantiles{Count: n, Mean: sum / float64(n), P50: at(50), P90: at(90), P95: at(95), P99: at(99), Max: values[n-1]}
}
