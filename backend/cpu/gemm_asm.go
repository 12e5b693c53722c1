//go:build !noasm && (amd64 || arm64)

package cpu

import "fmt"

// agree panics where c is not what a·b may be added to.
func agree(c *matrix, shrink []float32, a, b *matrix) {
	c.within()
	a.within()
	b.within()
	if a.rows != c.rows || b.rows != a.cols || b.cols != c.cols || c.cols%16 != 0 || shrink != nil && len(shrink) < c.rows {
		panic(fmt.Sprintf("cpu: product of %dx%d and %dx%d for %dx%d, factors for %d rows", a.rows, a.cols, b.rows, b.cols, c.rows, c.cols, len(shrink)))
	}
}

// first is where a slice begins, nil for none.
func first(x []float32) *float32 {
	if len(x) == 0 {
		return nil
	}
	return &x[0]
}

// transposer is kernels.transpose by a function for 16 rows, back to back.
func transposer(rows func(dst *float32, stride int, src *float32, cols int)) func(dst, src matrix) {
	return func(dst, src matrix) {
		dst.within()
		src.within()
		if dst.rows != src.cols || dst.cols != src.rows || src.rows%16 != 0 || src.cols%16 != 0 || src.stride != src.cols {
			panic(fmt.Sprintf("cpu: transpose of %dx%d, stride %d, to %dx%d", src.rows, src.cols, src.stride, dst.rows, dst.cols))
		}
		for i := 0; i < src.rows; i += 16 {
			rows(&dst.data[i], dst.stride, &src.data[i*src.stride], src.cols)
		}
	}
}
