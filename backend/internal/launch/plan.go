package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Plan checks a step's attention and splits it over the device. resident is how many
// blocks of a kernel the whole device runs at once; it is asked for each kernel that
// the step may need.
func Plan(caps backend.Caps, s backend.AttendShape, resident func(Kernel) (int, error)) (backend.AttendPlan, error) {
	if err := check.Plan(caps, s); err != nil {
		return backend.AttendPlan{}, err
	}
	a := arguments{op: "plan attend"}
	if a.heads("KV heads", s.KVHeads); a.err != nil {
		return backend.AttendPlan{}, a.err
	}
	var capacity plan.Capacity
	for kind := range plan.Kinds {
		if !plan.Has(kind, s.Format) {
			continue
		}
		n, err := resident(Attention(kind, s.Format, s.KDim, s.VDim, Paged))
		if err != nil {
			return backend.AttendPlan{}, err
		}
		capacity[kind] = n
	}
	return plan.Attend(s, capacity)
}
