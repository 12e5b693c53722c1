//go:build !noasm

package cpu

// weigher is an assembly function for kernels.weigh, for up to rowsAtOnce rows.
type weigher func(scores *float32, stride, n int, by float32, top, shrink *float32, sum *float64, rows int)

// capper is an assembly function for kernels.softcap.
type capper func(row *float32, n int, by, limit float32)

// The assembly of each tier.
var (
	weighersOf = map[string]weigher{"avx512": weighAVX512, "avx2": weighAVX2}
	cappersOf  = map[string]capper{"avx512": softcapAVX512, "avx2": softcapAVX2}
)

// weighs sets weigh and softcap to those of k's tier.
func (k *kernels) weighs() {
	k.weigh, k.softcap = weighersOf[k.name].weigh, cappersOf[k.name].softcap
}

func (w weigher) weigh(scores []float32, stride, n int, by float32, top, shrink []float32, sum []float64) {
	rows := len(top)
	if rows == 0 || n == 0 {
		portable.weigh(scores, stride, n, by, top, shrink, sum)
		return
	}
	_, _, _ = scores[(rows-1)*stride+n-1], shrink[rows-1], sum[rows-1]
	for r := 0; r < rows; r += rowsAtOnce {
		w(&scores[r*stride], stride, n, by, &top[r], &shrink[r], &sum[r], min(rowsAtOnce, rows-r))
	}
}

func (c capper) softcap(row []float32, by, limit float32) {
	if len(row) > 0 {
		c(&row[0], len(row), by, limit)
	}
}
