package bench

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// dispatch adds trials of what a layer of a decode step costs beyond its kernels.
func (r *processor) dispatch() {
	for _, threads := range r.threads {
		r.fixed(r.best(threads))
	}
	r.shared()
}

// fixed is a layer with hardly any arithmetic: one token is appended, and one head looks at it.
func (r *processor) fixed(on spec) {
	h := heads{1, 1, 16, 0}
	r.add(&trial{name: "dispatch/smallest", on: on, set: func(d *device) (*operation, error) {
		rows := func() backend.Rows[*cpu.Buffer] { return backend.Dense(d.filled(backend.F32, h.width())) }
		p, cache, err := operands(&d.memory, ring[*cpu.Buffer]{&d.memory, func(int) int { return 1 }},
			step{act: backend.F32, stored: backend.F32, heads: h, batch: 1, context: 1, queries: 1, inOrder: true})
		if err != nil {
			return nil, err
		}
		p.Cache, p.Batch.QueryOffsets, p.Workspace = cache(0), backend.Opt[*cpu.Buffer]{}, backend.Opt[*cpu.Buffer]{}
		fresh := backend.AppendParams[*cpu.Buffer]{Cache: p.Cache, Tokens: 1, K: rows(), V: rows(), Slots: upload(&d.memory, backend.I64, []int64{0})}
		return each(func() error {
			if err := d.be.Append(d.stream, fresh); err != nil {
				return err
			}
			return d.be.Attend(d.stream, p)
		}), d.err
	}})
}

// shared is attention over a cache that the processors have near, split over all threads:
// what it takes beyond its part of one thread's time is waking and waiting, and the merge.
func (r *processor) shared() {
	s := cpuStep(backend.F16)
	s.what, s.batch, s.context, s.queries = "dispatch", 1, 256, 1
	near := func(threads int) *trial {
		return r.add(&trial{name: fmt.Sprintf("dispatch/shared/context=%d", s.context), on: r.best(threads), set: func(d *device) (*operation, error) {
			v := r.views(d)
			p, cache, err := operands(&d.memory, v, s)
			if err := errors.Join(err, v.aim(1)); err != nil {
				return nil, err
			}
			p.Cache = cache(0)
			return each(func() error { return d.be.Attend(d.stream, p) }), nil
		}})
	}
	one := near(1)
	if all := near(r.all()); all != one {
		all.against = append(all.against, comparison{one, "ns-beyond", func(own, other float64) float64 {
			return (own - other/float64(r.all())) * 1e9
		}})
	}
}
