package gpubench

import (
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// contiguous as a size of a block: that of a whole context.
const contiguous = 0

// step is the attention of equal sequences.
type step struct {
	what                    string
	act, stored             backend.DType // of activations, and of keys
	block                   int
	group                   int // query heads of a KV head
	batch, context, queries int // sequences, tokens in the cache and query tokens of each
	shared                  int // tokens at the start of all contexts that lie in common blocks
}

func (s step) format() backend.Format {
	return backend.Format{Act: s.act, K: s.stored, V: valuesOf(s.stored)}
}

// slots is those of a block.
func (s step) slots() int {
	if s.block == contiguous {
		return s.context
	}
	return s.block
}

// tokens is those in the cache, of all sequences.
func (s step) tokens() int { return s.shared + s.batch*(s.context-s.shared) }

// table is the blocks of all sequences.
func (s step) table() []uint32 {
	block := s.slots()
	ids, first := shuffled(s.tokens()/block), s.shared/block
	var table []uint32
	for i := range s.batch {
		own := (s.context - s.shared) / block
		table = append(append(table, ids[:first]...), ids[first+i*own:][:own]...)
	}
	return table
}

func (s step) String() string {
	types, layout := s.act.String(), "contiguous"
	if s.stored != s.act {
		types += "-" + s.stored.String()
	}
	if s.block != contiguous {
		layout = fmt.Sprintf("paged%d", s.block)
	}
	name := fmt.Sprintf("%s/%s/%s/group=%d/batch=%d/context=%d/queries=%d", s.what, types, layout, s.group, s.batch, s.context, s.queries)
	if s.shared > 0 {
		name += fmt.Sprintf("/shared=%d", s.shared)
	}
	return name
}

// reduced is the step on a device that is emulated: small, and of two parts.
func (s step) reduced() step {
	s.batch, s.context, s.queries, s.shared = min(s.batch, 2), 256, min(s.queries, 32), min(s.shared, 128)
	return s
}

// steps is those that the device has types for.
func (r *rig[B]) steps() (all []trial[B]) {
	for _, s := range attention() {
		if !r.Backend.Caps().Supports(s.format()) {
			continue
		}
		if r.Emulated {
			s = s.reduced()
		}
		all = append(all, trial[B]{s.String(), func(r *rig[B]) (work, operation) { return r.attend(s) }})
	}
	return all
}

// attend is a step, or its merge.
func (r *rig[B]) attend(s step) (work, operation) {
	p, layers := r.prepare(s)
	if s.what == merge {
		p.Cache = layers[0]
		return r.merges(s, p)
	}
	return r.does(s), func(turn int) error {
		p.Cache = layers[turn%len(layers)]
		return r.Backend.Attend(r.Stream, p)
	}
}

// merges is the launch that combines the parts of a step, in place of each of its launches.
// The parts were just written, as in the step itself, and lie where that leaves them.
func (r *rig[B]) merges(s step, p backend.AttendParams[B]) (work, operation) {
	require.NoError(r.b, r.Backend.Attend(r.Stream, p))
	calls := r.Stream.Calls()
	require.NoError(r.b, launch.Attend(calls, &p))
	launches := len(calls.List())
	at := slices.IndexFunc(calls.List(), func(c launch.Call) bool { return c.Kernel.Op == launch.OpAttendMerge })
	if at < 0 {
		r.b.Skip("no context is split")
	}
	rows := kvHeads * s.group * dim // of a sequence
	does := work{bytes: float64(4*p.Plan.Parts*rows + s.batch*rows*s.act.Bits()/8), times: launches}
	return does, func(int) error {
		if err := launch.Attend(calls, &p); err != nil {
			return err
		}
		list := calls.List()
		for i := range list {
			list[i] = list[at]
		}
		return r.Stream.Run()
	}
}

// does is the work of a step: products with what its queries see, and the keys and values
// once. For the mass keys are read once more; common blocks count for each sequence, and
// caches may make reading them faster than memory is.
func (r *rig[B]) does(s step) work {
	seen := s.queries*s.context - s.queries*(s.queries-1)/2
	bytes := layerSize(s.stored, s.batch*s.context, s.slots())
	if s.what == mass {
		bytes += planeSize(s.stored, s.batch*s.context, s.slots())
	}
	w := r.read(bytes)
	w.flops = 4 * float64(s.batch) * float64(seen) * float64(s.group) * width
	switch s.what {
	case prefill:
		w.calculates, w.limit = true, r.limits.products(s.act)
	case flat, cascade:
		w.limit = 0
	}
	return w
}

// prepare makes the operands of a step, and the layers that it may read.
func (r *rig[B]) prepare(s step) (backend.AttendParams[B], []backend.CacheView[B]) {
	block, heads := s.slots(), s.group*kvHeads
	tokens, table := s.batch*s.queries, s.table()
	shape := backend.AttendShape{QHeads: heads, KVHeads: kvHeads, KDim: dim, VDim: dim, BlockSize: block, Format: s.format(), Mass: s.what == mass}
	offsets := []uint32{0}
	for i := range s.batch {
		shape.ContextLens, shape.QueryLens = append(shape.ContextLens, uint32(s.context)), append(shape.QueryLens, uint32(s.queries))
		offsets = append(offsets, uint32((i+1)*s.queries))
	}
	if s.what == cascade {
		shape.Table, shape.TableStride = table, len(table)/s.batch
	}
	plan, err := r.Backend.PlanAttend(shape)
	require.NoError(r.b, err)
	rows := tokens * heads * dim
	p := backend.AttendParams[B]{
		Q: backend.Dense(r.filled(s.act, rows)), QHeads: heads, Scale: float32(1 / math.Sqrt(dim)),
		Batch: backend.Ragged[B]{Seqs: s.batch, Tokens: tokens, Table: backend.Some(upload(r, backend.U32, table)), TableStride: len(table) / s.batch,
			ContextLens: upload(r, backend.U32, shape.ContextLens), QueryOffsets: backend.Some(upload(r, backend.U32, offsets))},
		Out:  backend.Outputs[B]{Rows: backend.Dense(r.alloc(s.act, rows))},
		Plan: plan, Work: backend.Some(upload(r, backend.U32, plan.Work)), Workspace: backend.Some(r.alloc(backend.F32, plan.Workspace)),
	}
	if shape.Mass {
		sums := r.alloc(backend.F32, s.tokens()*kvHeads)
		require.NoError(r.b, r.Backend.Fill(r.Stream, sums, 0, sums.Len(), 0))
		p.Out.Mass = backend.Some(sums)
	}
	return p, r.layers(r.turns(layerSize(s.stored, s.tokens(), block)), s.stored, s.tokens(), block)
}
