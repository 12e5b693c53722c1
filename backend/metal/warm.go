//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// warm finds what attention with a plan of the shape needs of a kind, beside it what merges parts and
// adds scores up, and returns how many threadgroups of the kind the device runs at once. It compiles what
// is not there, or with load unset, under the device's lock, says that it is device.Missing. Whether the keys
// are split changes as contexts grow, so it is for both: else the first step that splits them would
// wait. Once all is there it allocates nothing.
func (be *Backend) warm(s *backend.AttendShape, k launch.Kernel, load bool) (resident int, err error) {
	merge, mass := launch.Kernel{Op: launch.OpAttendMerge, In: k.In}, k
	mass.Op = launch.OpAttendMass
	find := be.modules.known
	if load {
		find = be.modules.get
	}
	for _, mask := range be.masksOf(s) {
		for _, whole := range usual(s) {
			for _, has := range [...]uint32{whole | mask, whole | mask | 1<<abi.WithPartials} {
				kernels := [...]launch.Kernel{k, merge, mass}
				for i, needed := range [...]bool{true, has&(1<<abi.WithPartials) != 0, s.Scores} {
					if !needed {
						continue
					}
					v := variantOf(kernels[i], s.Format, has)
					if v.kernel.Op == launch.OpAttendMass {
						v.constants = v.constants&^(1<<abi.WithLSE) | 1<<abi.WithFinalLSE
					}
					found, err := find(v)
					if err != nil {
						return 0, err
					}
					if i == 0 {
						resident = found.resident
					}
				}
			}
		}
	}
	return resident, nil
}

// copies are the kernels of copies that may be more than one launch, of which the later ones cannot be
// waited for when the earlier ones have moved bytes.
var copies = [...]variant{{launch.Kernel{Op: launch.OpCopy}, 0}, {launch.Kernel{Op: launch.OpCopy}, 1 << abi.Wide}, {launch.Kernel{Op: launch.OpCopyBits}, 0}}

// warmCopy compiles them for a copy that may need them.
func (be *Backend) warmCopy(dst, src *Buffer, n int) error {
	overlaps := dst != nil && src != nil && dst.memory == src.memory
	if be.modules == nil || !overlaps && (dst.DType().Bits() >= 8 || n%2 == 0) {
		return nil
	}
	for _, v := range copies {
		if _, err := be.modules.get(v); err != nil && !errors.Is(err, backend.ErrClosed) {
			return be.dev.Failed("copy", err)
		}
	}
	return nil
}

// usual is the function constants that calls with a plan of the shape have: with a table and query offsets,
// and as far as the plan tells with views, a tree and scores. Plans of older or of residual keys are for calls whose results
// are merged by their log-sum-exps, scores are then AttendScores' part; but where no key is old yet, a call
// for residual ones is like any other. What masks have besides is not in a shape: see masksOf. Log-sum-exps that a
// caller wants for itself are not either: kernels with those are compiled when they are first used.
func usual(s *backend.AttendShape) [2]uint32 {
	alone := uint32(1<<abi.WithTable | 1<<abi.WithOffsets)
	if launch.Paged(s) {
		alone |= 1 << abi.Paged
	}
	if s.Views != nil {
		alone |= 1 << abi.WithViews
	}
	if s.TreeWords > 0 {
		alone |= 1 << abi.WithTree
	}
	merged := alone | 1<<abi.WithLSE
	if s.Scores {
		alone |= 1 << abi.WithFinalLSE
	}
	switch s.Part {
	case backend.OlderKeys:
		return [2]uint32{merged, merged}
	case backend.ResidualKeys:
		return [2]uint32{alone, merged}
	}
	return [2]uint32{alone, alone}
}
