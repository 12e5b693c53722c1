//go:build !noasm

package cpu

import "math"

// weighNEON differs from weighGo in the last bits: its exponentials are of float32, and are
// added as such, call by call.
func weighNEON(scores []float32, stride, n int, scale float32, top, shrink []float32, sum []float64) {
	if n == 0 {
		weighGo(scores, stride, n, scale, top, shrink, sum)
		return
	}
	for r, old := range top {
		row := scores[r*stride:][:n]
		high := peakNEON(&row[0], n, scale, old)
		shrink[r] = 1
		if high == negInf {
			clear(row)
			continue
		}
		if sum[r] != 0 && high != old {
			less := math.Exp(float64(old) - float64(high))
			sum[r] *= less
			shrink[r] = float32(less)
		}
		top[r] = high
		sum[r] += float64(expNEON(&row[0], n, high))
	}
}

func capNEON(row []float32, by, limit float32) {
	if len(row) > 0 {
		softcapNEON(&row[0], len(row), by, limit)
	}
}
