package bench

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// attention adds trials of attention, in the steps that serving is made of.
func (r *processor) attention() {
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
	for _, s := range append(r.latents(), r.shapes()...) {
		for _, threads := range r.threads {
			r.attend(s, r.best(threads))
		}
	}
	for _, s := range r.lone() {
		one := r.attend(s, r.best(1))
		if all := r.attend(s, r.best(r.all())); all != one {
			all.against = append(all.against, speed(one, "one"))
		}
	}
	r.twins()
}

// latents is decoding over latents, for few query heads and for many.
func (r *processor) latents() (all []step) {
	for _, heads := range []int{16, 128} {
		for _, dt := range []backend.DType{backend.F32, backend.F16, backend.Int8, backend.FP8E4M3} {
			s := cpuStep(dt)
			s.what, s.heads = fmt.Sprintf("latents/heads=%d", heads), mla(heads)
			s.batch, s.context, s.queries = 1, r.size(8192, 512), 1
			all = append(all, bothLayouts(s)...)
		}
	}
	return all
}

// shapes is decoding with other heads than those of all other trials: as many query heads as KV heads, one KV head, and
// heads of other sizes.
func (r *processor) shapes() (all []step) {
	for _, h := range []heads{{32, 32, 128, 0}, {8, 8, 128, 0}, {32, 2, 128, 0}, {32, 1, 128, 0}, {8, 1, 128, 0}, {32, 8, 64, 0}, {32, 8, 80, 0}, {32, 8, 96, 0}, {16, 8, 256, 0}} {
		for _, s := range []step{cpuStep(backend.F32), cpuStep(backend.F16), cpuStep(backend.Int8), int8Query(cpuStep(backend.Int8)), cpuStep(backend.Int4)} {
			s.what, s.heads = fmt.Sprintf("shapes/%dx%dx%d", h.query, h.kv, h.dim), h
			s.batch, s.context, s.queries = 1, r.size(8192, 512), 1
			all = append(all, bothLayouts(s)...)
		}
	}
	return all
}

// lone is one sequence of few keys, which several threads have to divide.
func (r *processor) lone() (all []step) {
	for _, s := range []step{cpuStep(backend.F32), cpuStep(backend.F16), cpuStep(backend.Int8), int8Query(cpuStep(backend.Int8))} {
		for _, s.context = range []int{128, 256, 512, 1024, 4096} {
			s.what, s.batch, s.queries = "lone/32x8x128", 1, 1
			all = append(all, bothLayouts(s)...)
		}
	}
	for _, heads := range []int{16, 128} {
		s := cpuStep(backend.F16)
		for _, s.context = range []int{256, 512, 1024, 2048} {
			s.what, s.heads, s.batch, s.queries = fmt.Sprintf("lone/latent%d", heads), mla(heads), 1, 1
			all = append(all, bothLayouts(s)...)
		}
	}
	return all
}

// bothLayouts is a step in place and in blocks.
func bothLayouts(s step) []step {
	paged := s
	s.block, s.inOrder = contiguous, true
	paged.block, paged.inOrder = blockSize, false
	return []step{s, paged}
}

// int8Query is a step whose queries are rounded to int8.
func int8Query(s step) step {
	s.int8Query = true
	return s
}

// cpuStep is a step with keys and values of a type.
func cpuStep(dt backend.DType) step {
	s := step{act: dt, stored: dt, heads: llama, inOrder: true}
	if dt.Quantized() {
		s.act = backend.F16
	}
	return s
}

// stored is the storage types, and the modes of reading them.
func stored() (all []step) {
	for dt := range backend.StorageTypes {
		all = append(all, cpuStep(dt))
	}
	return append(all, int8Query(cpuStep(backend.Int8)), int8Query(cpuStep(backend.Int4)))
}

// decodes is every type in every layout, batch and context.
func (r *processor) decodes() (all []step) {
	for _, s := range stored() {
		s.what, s.queries = "decode", 1
		for _, s := range bothLayouts(s) {
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
func (r *processor) decode(s step, threads int) {
	t := r.attend(s, r.best(threads))
	switch {
	case s.stored == backend.F16:
		s.mass = true
		with := r.attend(s, r.best(threads))
		with.against = append(with.against, speed(t, "plain"))
	case s.stored.Quantized():
		s.stored, s.int8Query = backend.F16, false
		t.against = append(t.against, speed(r.attend(s, r.best(threads)), "f16"))
	}
}

// prompts is a whole prompt, and the last chunk of a long one.
func (r *processor) prompts(dt backend.DType) []step {
	long, short := r.size(8192, 512), r.size(2048, 256)
	var all []step
	for _, size := range [...]struct{ block, context, queries int }{{contiguous, short, short}, {contiguous, long, r.size(512, 64)}, {blockSize, short, short}} {
		s := cpuStep(dt)
		s.what, s.block, s.inOrder = "prefill", size.block, size.block == contiguous
		s.batch, s.context, s.queries = 1, size.context, size.queries
		all = append(all, s)
	}
	return all
}

// twins adds the other kernels of the processor, compared with the fastest. Those in Go would
// take minutes for a prompt.
func (r *processor) twins() {
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

// cpuName is the name of a step's trial: the activation's type follows from that of the cache.
func (s step) cpuName() string {
	return fmt.Sprintf("%s/batch=%d/context=%d/queries=%d", s.cpuStorage(), s.batch, s.context, s.queries)
}

// cpuStorage is the part of the name that says what a step is, and how its cache is stored.
func (s step) cpuStorage() string {
	name := s.stored.String()
	if s.int8Query {
		name += "+int8query"
	}
	if s.mass {
		name += "+mass"
	}
	return fmt.Sprintf("%s/%s/%s", s.what, name, s.layer().layout())
}

// cpuWork is that of a step on the processor: one token a sequence waits for the memory, many, and all heads of
// latents, for arithmetic.
func (s step) cpuWork() work {
	w := s.work()
	if s.queries > 1 || s.latent > 0 {
		w.bound = multiplying
	}
	return w
}

// attend adds a trial of a step.
func (r *processor) attend(s step, on spec) *trial {
	return r.add(&trial{name: s.cpuName(), on: on, work: s.cpuWork(), reads: s.layer().place(), set: func(d *device) (*operation, error) {
		v := r.views(d)
		op, err := attention(&d.memory, v, s)
		if err == nil {
			op.aim = v.aim
		}
		return op, err
	}})
}
