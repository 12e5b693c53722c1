//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// PlanAttend splits a step's attention so that every multiprocessor has its share. It
// loads the attention kernels of the shape's types.
func (be *Backend) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	return be.dev.Plan(s, func(k launch.Kernel) (int, error) {
		found, err := be.modules.find(k)
		if err != nil {
			return 0, err
		}
		return found.resident, nil
	})
}

// Copy moves n elements between buffers of one DType; overlap is allowed, and takes
// some memory of the device until the copy is done.
func (be *Backend) Copy(s backend.Stream, dst *Buffer, dstOff int, src *Buffer, srcOff, n int) error {
	return be.dev.Copy(s, dst, dstOff, src, srcOff, n)
}

// Fill sets n elements from off on to v, rounded to the storage type. An integer
// type must be able to hold v (ErrShape); the types that need a scale beside them
// take 0 only (ErrUnsupported).
func (be *Backend) Fill(s backend.Stream, dst *Buffer, off, n int, v float64) error {
	return be.dev.Fill(s, dst, off, n, v)
}
