package cpubench

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// step is the attention of equal sequences.
type step struct {
	what                    string
	dt                      backend.DType // that keys and values are stored as
	paged                   bool          // in blocks of blockSize; else a sequence is one block
	batch, context, queries int           // sequences, tokens in the cache and query tokens of each
	mass                    bool          // accumulated
	int8Query               bool
}

// attention adds trials of attention, in the steps that serving is made of.
func (r *rig) attention() {
	for _, threads := range r.threads {
		for _, s := range r.decodes() {
			r.decode(s, threads)
		}
		for _, dt := range []backend.DType{backend.F32, backend.F16} {
			for _, s := range r.prompts(dt) {
				r.attend(s, r.best(threads))
			}
		}
	}
	r.twins()
}

// stored is the storage types, and the modes of reading them.
func stored() (all []step) {
	for dt := range backend.Storages {
		if dt.Coding().Values == dt {
			all = append(all, step{dt: dt})
		}
	}
	for _, dt := range []backend.DType{backend.Int8, backend.Int4} {
		all = append(all, step{dt: dt, int8Query: true})
	}
	return all
}

// decodes is every type in every layout, batch and context.
func (r *rig) decodes() (all []step) {
	for _, s := range stored() {
		s.what, s.queries = "decode", 1
		for _, s.paged = range []bool{false, true} {
			for _, s.batch = range []int{1, r.size(8, 2)} {
				for _, s.context = range []int{r.size(8192, 512), r.size(32768, 1024)} {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// decode adds a step of decoding. What is quantized is compared with f16, and for f16 there is a
// step with the attention mass, compared with the one without.
func (r *rig) decode(s step, threads int) {
	t := r.attend(s, r.best(threads))
	switch {
	case s.dt == backend.F16:
		s.mass = true
		with := r.attend(s, r.best(threads))
		with.against = append(with.against, speed(t, "plain"))
	case s.dt.Quantized():
		s.dt, s.int8Query = backend.F16, false
		t.against = append(t.against, speed(r.attend(s, r.best(threads)), "f16"))
	}
}

// prompts is a whole prompt, and the last chunk of a long one.
func (r *rig) prompts(dt backend.DType) []step {
	long, short := r.size(8192, 512), r.size(2048, 256)
	return []step{
		{what: "prefill", dt: dt, batch: 1, context: short, queries: short},
		{what: "prefill", dt: dt, batch: 1, context: long, queries: r.size(512, 64)},
		{what: "prefill", dt: dt, paged: true, batch: 1, context: short, queries: short},
	}
}

// twins adds the other kernels of the processor, compared with the fastest. Those in Go would
// take minutes for a prompt.
func (r *rig) twins() {
	var steps []step
	for _, s := range r.decodes() {
		if s.batch == 1 && s.context == r.size(8192, 512) {
			steps = append(steps, s)
		}
	}
	for _, dt := range []backend.DType{backend.F32, backend.F16} {
		steps = append(steps, r.prompts(dt)[0])
	}
	for _, s := range steps {
		first := r.attend(s, r.best(1))
		for _, kernels := range r.kernels[1:] {
			if kernels == "go" && s.queries > 1 {
				continue
			}
			t := r.attend(s, spec{kernels, 1})
			t.against = append(t.against, speed(first, r.kernels[0]))
		}
	}
}

func (s step) layer() layer {
	l := layer{dt: s.dt, slots: s.batch * s.context, block: s.context}
	if s.paged {
		l.block = blockSize
	}
	return l
}

// act is the type of queries and results.
func (s step) act() backend.DType {
	if s.dt.Quantized() {
		return backend.F16
	}
	return s.dt
}

func (s step) String() string {
	name := s.dt.String()
	if s.int8Query {
		name += "+int8query"
	}
	if s.mass {
		name += "+mass"
	}
	return fmt.Sprintf("%s/%s/%s/batch=%d/context=%d/queries=%d", s.what, name, s.layer().layout(), s.batch, s.context, s.queries)
}

// work is that of a step. Each query token sees the keys up to its own, and 4 operations are
// for each of their elements. One token a sequence waits for the memory, many for arithmetic.
func (s step) work() work {
	seen := s.queries*s.context - s.queries*(s.queries-1)/2
	flops := 4 * float64(s.batch) * float64(seen) * qHeads * dim
	bytes := float64(s.layer().bytes())
	if s.queries > 1 {
		return work{amount: flops, unit: "GFLOP/s", bound: multiplying, flops: flops, bytes: bytes}
	}
	return work{amount: bytes, unit: "GB/s", bound: reading, flops: flops, bytes: bytes}
}

// attend adds a trial of a step.
func (r *rig) attend(s step, on spec) *trial {
	return r.add(&trial{name: s.String(), on: on, work: s.work(), reads: s.layer().place(),
		set: func(d *device) operation { return r.attending(d, s) }})
}

// attending makes the operands of a step. Its calls go from layer to layer.
func (r *rig) attending(d *device, s step) operation {
	l := s.layer()
	shape := backend.AttendShape{QHeads: qHeads, KVHeads: kvHeads, KDim: dim, VDim: dim, BlockSize: l.block,
		Format: backend.Format{Act: s.act(), K: s.dt, V: s.dt}, Mass: s.mass}
	offsets := []uint32{0}
	for i := range s.batch {
		shape.ContextLens, shape.QueryLens = append(shape.ContextLens, uint32(s.context)), append(shape.QueryLens, uint32(s.queries))
		offsets = append(offsets, uint32((i+1)*s.queries))
	}
	plan, err := d.be.PlanAttend(shape)
	r.must(err)
	tokens, stride := s.batch*s.queries, s.context/l.block
	p := backend.AttendParams[*cpu.Buffer]{
		Q: backend.Dense(r.filled(d, s.act(), tokens*qHeads*dim)), QHeads: qHeads, Scale: float32(1 / math.Sqrt(dim)),
		Batch: backend.Ragged[*cpu.Buffer]{Seqs: s.batch, Tokens: tokens, ContextLens: upload(r, d, backend.U32, shape.ContextLens),
			QueryOffsets: backend.Some(upload(r, d, backend.U32, offsets))},
		Out:  backend.Outputs[*cpu.Buffer]{Rows: backend.Dense(r.alloc(d, s.act(), tokens*qHeads*dim))},
		Plan: plan, Work: backend.Some(upload(r, d, backend.U32, plan.Work)), Workspace: backend.Some(r.alloc(d, backend.F32, plan.Workspace)),
		Int8Query: s.int8Query,
	}
	if s.paged {
		p.Batch.Table, p.Batch.TableStride = backend.Some(upload(r, d, backend.U32, shuffled(s.batch*stride))), stride
	}
	if s.mass {
		p.Out.Mass = backend.Some(r.filled(d, backend.F32, l.slots*kvHeads))
	}
	return aimed(r, d, d.be.Attend, func(v *views) backend.AttendParams[*cpu.Buffer] {
		p.Cache = v.layer(r.stored, l)
		return p
	})
}
