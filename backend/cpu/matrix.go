package cpu

import "fmt"

// matrix is rows of float32, each stride elements after the one before.
type matrix struct {
	data               []float32
	rows, cols, stride int
}

// within panics where the matrix has no elements or does not lie in its data: the kernels
// in assembly trust it.
func (m *matrix) within() {
	if m.rows < 1 || m.cols < 1 || m.stride < m.cols {
		panic(fmt.Sprintf("cpu: matrix of %d rows, %d columns, stride %d", m.rows, m.cols, m.stride))
	}
	_ = m.data[(m.rows-1)*m.stride+m.cols-1]
}
