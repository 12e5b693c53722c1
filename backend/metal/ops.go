//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

var _ backend.Preparer = (*Backend)(nil)

// PlanAttend divides a step's attention evenly over the GPU's cores. It compiles the kernels that
// attention with such a plan needs, which others do not wait for.
func (be *Backend) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	return be.dev.Plan(s, func(k launch.Kernel) (int, error) {
		if k.Op == launch.OpAttendWide {
			return 0, nil
		}
		return be.warm(&s, k, false)
	})
}

// Copy copies n elements between buffers of one DType. The ranges may overlap, which takes device
// memory until the copy is done.
func (be *Backend) Copy(s backend.Stream, dst *Buffer, dstOff int, src *Buffer, srcOff, n int) error {
	if err := be.warmCopy(dst, src, n); err != nil {
		return err
	}
	return be.dev.Copy(s, dst, dstOff, src, srcOff, n)
}

// Fill sets n elements from off on to v, rounded to the storage type. ErrArgument when an integer type
// cannot hold v; ErrUnsupported for a value other than 0 in a quantized type.
func (be *Backend) Fill(s backend.Stream, dst *Buffer, off, n int, v float64) error {
	return be.dev.Fill(s, dst, off, n, v)
}
