//go:build !noasm

package cpu

// weigher is an assembly function for kernels.weigh.
type weigher func(scores *float32, stride, n int, by float32, top, shrink *float32, sum *float64, rows int)

// weighersOf is that of each tier.
var weighersOf = map[string]weigher{"avx512": weighAVX512, "avx2": weighAVX2}

// weighs sets weigh to that of k's tier.
func (k *kernels) weighs() { k.weigh = weighersOf[k.name].weigh }

func (w weigher) weigh(scores []float32, stride, n int, by float32, top, shrink []float32, sum []float64) {
	rows := len(top)
	if rows == 0 {
		return
	}
	_, _, _ = scores[(rows-1)*stride+n-1], shrink[rows-1], sum[rows-1]
	w(&scores[0], stride, n, by, &top[0], &shrink[0], &sum[0], rows)
}
