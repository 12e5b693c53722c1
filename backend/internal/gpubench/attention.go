package gpubench

import (
	"fmt"
	"math"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// contiguous as a size of a block: that of a whole context.
const contiguous = 0

// step is the attention of equal sequences.
type step struct {
	what                    string
	dt, stored              backend.DType // of activations, and of keys
	batch, context, queries int           // sequences, tokens in the cache and query tokens of each
	heads                   int           // of queries
	block                   int
	mass                    bool // accumulated
}

// attention measures attention, in the steps that serving is made of.
func (r *rig[B]) attention() {
	const context = 8192
	layouts := []int{contiguous, blockSize}
	decode := func(dt backend.DType, batch, heads, block int) {
		r.attend(step{what: "decode", dt: dt, stored: dt, batch: batch, context: context, queries: 1, heads: heads, block: block})
	}
	for _, dt := range []backend.DType{backend.F16, backend.BF16, backend.F32} {
		for _, block := range layouts {
			for _, group := range []int{1, 4, 8} {
				decode(dt, 8, group*kvHeads, block)
			}
		}
	}
	for _, dt := range []backend.DType{backend.F16, backend.BF16} {
		for _, block := range layouts {
			for _, batch := range []int{1, 64} {
				decode(dt, batch, qHeads, block)
			}
		}
	}
	// A few tokens a sequence, as a draft model guesses them.
	for _, batch := range []int{1, 8} {
		r.attend(step{what: "verify", dt: backend.F16, stored: backend.F16, batch: batch, context: context, queries: 4, heads: qHeads, block: blockSize})
	}
	// A prompt, and the last chunk of one.
	for _, dt := range []backend.DType{backend.F16, backend.BF16} {
		for _, block := range layouts {
			for _, queries := range []int{context, 512} {
				r.attend(step{what: "prefill", dt: dt, stored: dt, batch: 1, context: context, queries: queries, heads: qHeads, block: block})
			}
		}
	}
	// Quantized caches, whose steps read less.
	for _, stored := range []backend.DType{backend.Int8, backend.Int4, backend.FP8E4M3, backend.Int4Channel} {
		r.attend(step{what: "decode", dt: backend.F16, stored: stored, batch: 8, context: context, queries: 1, heads: qHeads, block: blockSize})
		r.attend(step{what: "prefill", dt: backend.F16, stored: stored, batch: 1, context: context, queries: 512, heads: qHeads, block: blockSize})
	}
	for _, dt := range []backend.DType{backend.F16, backend.F32} {
		r.attend(step{what: "mass", dt: dt, stored: dt, batch: 8, context: context, queries: 1, heads: qHeads, block: blockSize, mass: true})
	}
}

// attend measures a step, unless the device has not its type.
func (r *rig[B]) attend(s step) {
	if !r.Backend.Caps().Supports(s.format()) {
		return
	}
	if r.Emulated {
		s.batch, s.context, s.queries = min(s.batch, 2), 64, min(s.queries, 32)
	}
	r.measure(s.String(), func(r *rig[B]) (work, operation) {
		p, layers := r.prepare(s)
		return r.does(s), func(turn int) error {
			p.Cache = layers[turn%len(layers)]
			return r.Backend.Attend(r.Stream, p)
		}
	})
}

func (s step) format() backend.Format {
	return backend.Format{Act: s.dt, K: s.stored, V: valuesOf(s.stored)}
}

// slots is those of a block.
func (s step) slots() int {
	if s.block == contiguous {
		return s.context
	}
	return s.block
}

func (s step) String() string {
	layout := "contiguous"
	if s.block != contiguous {
		layout = fmt.Sprintf("block=%d", s.block)
	}
	types := s.dt.String()
	if s.stored != s.dt {
		types += "-" + s.stored.String()
	}
	return fmt.Sprintf("%s/%s/batch=%d/context=%d/queries=%d/heads=%d-%d/%s", s.what, types, s.batch, s.context, s.queries, s.heads, kvHeads, layout)
}

// does is the work of a step: products with what its queries see, where there are many of
// them; else the keys and values once, and for the mass the keys once more.
func (r *rig[B]) does(s step) work {
	if s.what == "prefill" {
		seen := s.queries*s.context - s.queries*(s.queries-1)/2
		return work{4 * float64(s.batch) * float64(seen) * float64(s.heads) * dim, "TFLOP/s", 1e12, r.ceilings.of(s.dt)}
	}
	bytes := layerSize(s.stored, s.batch*s.context, s.slots())
	if s.mass {
		bytes += planeSize(s.stored, s.batch*s.context, s.slots())
	}
	return r.read(bytes)
}

// prepare makes the operands of a step, and the layers that it may read.
func (r *rig[B]) prepare(s step) (backend.AttendParams[B], []backend.CacheView[B]) {
	block := s.slots()
	tokens, stride := s.batch*s.queries, s.context/block
	shape := backend.AttendShape{QHeads: s.heads, KVHeads: kvHeads, KDim: dim, VDim: dim, BlockSize: block, Format: s.format(), Mass: s.mass}
	offsets := []uint32{0}
	for i := range s.batch {
		shape.ContextLens, shape.QueryLens = append(shape.ContextLens, uint32(s.context)), append(shape.QueryLens, uint32(s.queries))
		offsets = append(offsets, uint32((i+1)*s.queries))
	}
	plan, err := r.Backend.PlanAttend(shape)
	require.NoError(r.b, err)
	rows := tokens * s.heads * dim
	p := backend.AttendParams[B]{
		Q: backend.Dense(r.filled(s.dt, rows)), QHeads: s.heads, Scale: float32(1 / math.Sqrt(dim)),
		Batch: backend.Ragged[B]{Seqs: s.batch, Tokens: tokens, Table: backend.Some(upload(r, backend.U32, shuffled(s.batch*stride))),
			TableStride: stride, ContextLens: upload(r, backend.U32, shape.ContextLens), QueryOffsets: backend.Some(upload(r, backend.U32, offsets))},
		Out:  backend.Outputs[B]{Rows: backend.Dense(r.alloc(s.dt, rows))},
		Plan: plan, Work: backend.Some(upload(r, backend.U32, plan.Work)), Workspace: backend.Some(r.alloc(backend.F32, plan.Workspace)),
	}
	if s.mass {
		mass := r.alloc(backend.F32, s.batch*s.context*kvHeads)
		require.NoError(r.b, r.Backend.Fill(r.Stream, mass, 0, mass.Len(), 0))
		p.Out.Mass = backend.Some(mass)
	}
	return p, r.layers(s.stored, s.batch*s.context, block)
}
