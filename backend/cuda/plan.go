//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// PlanAttend splits a step's attention so that every multiprocessor has its share.
// It loads the attention kernels of the shape's types.
func (be *Backend) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	be.mu.RLock()
	defer be.mu.RUnlock()
	if err := be.open("plan attend"); err != nil {
		return backend.AttendPlan{}, err
	}
	if err := check.Plan(be.caps, s); err != nil {
		return backend.AttendPlan{}, err
	}
	a := arguments{op: "plan attend"}
	if a.heads("KV heads", s.KVHeads); a.err != nil {
		return backend.AttendPlan{}, a.err
	}
	var capacity plan.Capacity
	for kind := range plan.Kinds {
		if !plan.Has(kind, s.Format.Act) {
			continue
		}
		k, err := be.kernel("plan attend", attendKernel(kind, s.Format, s.KDim, s.VDim, paged))
		if err != nil {
			return backend.AttendPlan{}, err
		}
		capacity[kind] = k.resident
	}
	return plan.Attend(s, capacity)
}

// attendKernel is the kernel that runs the items of a kind.
func attendKernel(kind plan.Kind, f backend.Format, kDim, vDim int, l layout) kernelID {
	return kernelID{op: attendOps[kind], in: f.Act, out: f.K, kDim: int32(kDim), vDim: int32(vDim), layout: l}
}
