package launch

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Plan checks a step's attention and splits it over the device. resident is how many
// blocks of a kernel the whole device runs at once; it is asked for the kernels of the
// kinds that the step contains.
func Plan(caps backend.Caps, s backend.AttendShape, resident func(Kernel) (int, error)) (backend.AttendPlan, error) {
	if err := check.Plan(caps, s); err != nil {
		return backend.AttendPlan{}, err
	}
	a := arguments{op: "plan attend"}
	if a.heads("KV heads", s.KVHeads); a.err != nil {
		return backend.AttendPlan{}, a.err
	}
	return plan.Attend(s, func(kind plan.Kind) (int, error) {
		return resident(Attention(kind, s.Format, s.KDim, s.VDim))
	})
}

// Paged reports whether calls with a plan of the shape find their keys by a table: without a table stride, as
// contexts tell.
func Paged(s *backend.AttendShape) bool {
	longer := func(n uint32) bool { return int(n) > s.BlockSize }
	return s.TableStride > 1 || s.TableStride == 0 && slices.ContainsFunc(s.ContextLens, longer)
}
