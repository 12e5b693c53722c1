package backendtest

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// rowFloor is the norm below which a reference row counts as this large: a row of
// zeros has no relative error.
const rowFloor = 0.01

// lseLimit is the largest difference of a log-sum-exp, which is always f32, but where
// queries are rounded.
const lseLimit = 1e-4

// limits are the largest error of a row by the coarsest type on its way.
var limits = map[backend.DType]float64{backend.F32: 1e-5, backend.F16: 2e-3, backend.BF16: 1e-2}

// coarsest is the largest limit of some types.
func coarsest(types ...backend.DType) float64 {
	limit := 0.0
	for _, dt := range types {
		limit = max(limit, limits[dt])
	}
	return limit
}

// rowError is ‖got − want‖ / max(‖want‖, rowFloor), infinite where got is not finite.
func rowError(got, want []float64) float64 {
	var diff, norm float64
	for i, w := range want {
		diff += (got[i] - w) * (got[i] - w)
		norm += w * w
	}
	if math.IsNaN(diff) {
		return math.Inf(1)
	}
	return math.Sqrt(diff) / max(math.Sqrt(norm), rowFloor)
}

// compareRows compares rows of width elements and reports the worst one, named
// by its index split over shape, if it is beyond the limit.
func compareRows(what string, got, want []float64, width int, limit float64, shape ...axisOf) error {
	worst, at := 0.0, -1
	for row := 0; row*width < len(want); row++ {
		if e := rowError(got[row*width:(row+1)*width], want[row*width:(row+1)*width]); e > worst {
			worst, at = e, row
		}
	}
	if worst <= limit {
		return nil
	}
	return fmt.Errorf("%s: error %.3g in %s, limit %g: starts %.6g, want %.6g", what, worst, locate(at, shape), limit,
		got[at*width:at*width+min(width, 4)], want[at*width:at*width+min(width, 4)])
}

// compareLSE compares log-sum-exps [tokens, heads]; −∞ must be −∞.
func compareLSE(got, want []float64, limit float64, shape ...axisOf) error {
	worst, at := 0.0, -1
	for i, w := range want {
		e := math.Abs(got[i] - w)
		if got[i] == w {
			e = 0 // the difference of two infinities is not a number
		} else if math.IsNaN(e) {
			e = math.Inf(1)
		}
		if e > worst {
			worst, at = e, i
		}
	}
	if worst <= limit {
		return nil
	}
	return fmt.Errorf("log-sum-exp: error %.3g at %s, limit %g: have %v, want %v", worst, locate(at, shape), limit, got[at], want[at])
}

// axisOf is a dimension of a row-major index: its name and length.
type axisOf struct {
	name string
	n    int
}

func locate(row int, shape []axisOf) string {
	if len(shape) == 0 {
		return fmt.Sprintf("row %d", row)
	}
	out := ""
	for i := len(shape) - 1; i >= 0; i-- {
		out = fmt.Sprintf(" %s %d", shape[i].name, row%shape[i].n) + out
		row /= shape[i].n
	}
	return out[1:]
}
