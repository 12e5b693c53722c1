package cpubench

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// dispatch adds trials of what a layer of a decode step costs beyond its kernels.
func (r *rig) dispatch() {
	for _, threads := range r.threads {
		r.fixed(r.best(threads))
	}
	r.shared()
}

// fixed is a layer with hardly any arithmetic: one token is appended, and one head looks at it.
func (r *rig) fixed(on spec) {
	const width = 16 // elements of the head
	r.add(&trial{name: "dispatch/smallest", on: on, set: func(d *device) operation {
		rows := func() *cpu.Buffer { return r.filled(d, backend.F32, width) }
		cache := backend.CacheView[*cpu.Buffer]{K: backend.Plane[*cpu.Buffer]{Data: rows(), Dim: width}, V: backend.Plane[*cpu.Buffer]{Data: rows(), Dim: width},
			Blocks: 1, KVHeads: 1, BlockSize: 1}
		plan, err := d.be.PlanAttend(backend.AttendShape{QHeads: 1, KVHeads: 1, KDim: width, VDim: width, BlockSize: 1,
			Format: backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, ContextLens: []uint32{1}, QueryLens: []uint32{1}})
		r.must(err)
		fresh := backend.AppendParams[*cpu.Buffer]{Cache: cache, Tokens: 1, K: backend.Dense(rows()), V: backend.Dense(rows()), Slots: upload(r, d, backend.I64, []int64{0})}
		step := backend.AttendParams[*cpu.Buffer]{Cache: cache, Q: backend.Dense(rows()), QHeads: 1, Scale: 0.25,
			Batch: backend.Ragged[*cpu.Buffer]{Seqs: 1, Tokens: 1, ContextLens: upload(r, d, backend.U32, []uint32{1})},
			Out:   backend.Outputs[*cpu.Buffer]{Rows: backend.Dense(rows())}, Plan: plan, Work: backend.Some(upload(r, d, backend.U32, plan.Work))}
		return operation{call: func(int) error {
			if err := d.be.Append(d.stream, fresh); err != nil {
				return err
			}
			return d.be.Attend(d.stream, step)
		}}
	}})
}

// shared is attention over a cache that the processors have near, split over all threads:
// what it takes beyond its part of one thread's time is waking and waiting, and the merge.
func (r *rig) shared() {
	s := step{what: "dispatch", dt: backend.F16, batch: 1, context: 256, queries: 1}
	near := func(threads int) *trial {
		return r.add(&trial{name: fmt.Sprintf("dispatch/shared/context=%d", s.context), on: r.best(threads), set: func(d *device) operation {
			op := r.attending(d, s)
			op.aim(1)
			return operation{call: func(int) error { return op.call(0) }}
		}})
	}
	one := near(1)
	if all := near(r.all()); all != one {
		all.against = append(all.against, comparison{one, "ns-beyond", func(own, other float64) float64 {
			return (own - other/float64(r.all())) * 1e9
		}})
	}
}
