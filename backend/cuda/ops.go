//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

var _ backend.Preparer = (*Backend)(nil)

// PlanAttend divides a step's attention evenly over the multiprocessors. It loads the attention
// kernels that the step needs, which others do not wait for.
func (be *Backend) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	return be.dev.Plan(s, func(k launch.Kernel) (int, error) {
		if k.Op == launch.OpAttendWide && !be.modules.wide()[k] {
			return 0, nil
		}
		found, err := be.modules.known(k)
		if err != nil {
			return 0, err
		}
		return found.resident, nil
	})
}

// Prepare loads the kernels that p may need, so that they have their memory before a cache takes the
// rest. Where the driver would have to compile them, on devices that there is no machine code for, these
// are only those that every decode step needs: a family of attention kernels takes it tens of seconds, and
// who never attends to a prompt does not need to wait for that.
func (be *Backend) Prepare(p backend.Preparation) error {
	return be.dev.Load("prepare", func() error {
		for _, k := range launch.Prepared(p, be.ctx.Device.Major <= lastMachineMajor, be.modules.wide()) {
			if _, err := be.modules.find(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// Copy copies n elements between buffers of one DType. The ranges may overlap, which takes device
// memory until the copy is done.
func (be *Backend) Copy(s backend.Stream, dst *Buffer, dstOff int, src *Buffer, srcOff, n int) error {
	if dst.DType().Bits() < 8 && n%2 != 0 && be.modules != nil {
		// Its kernel comes after bytes that overlap were moved, and those cannot be moved again.
		if _, err := be.modules.find(launch.Kernel{Op: launch.OpCopyBits}); err != nil && !errors.Is(err, backend.ErrClosed) {
			return be.dev.Failed("copy", err)
		}
	}
	return be.dev.Copy(s, dst, dstOff, src, srcOff, n)
}

// Fill sets n elements from off on to v, rounded to the storage type. ErrArgument when an integer type
// cannot hold v; ErrUnsupported for a value other than 0 in a quantized type.
func (be *Backend) Fill(s backend.Stream, dst *Buffer, off, n int, v float64) error {
	return be.dev.Fill(s, dst, off, n, v)
}
