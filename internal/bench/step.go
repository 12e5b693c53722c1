package bench

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// step is the attention of equal sequences.
type step struct {
	what        string
	act, stored backend.DType // of activations, and of keys
	heads
	block                   int  // slots; contiguous: those of a context
	batch, context, queries int  // sequences, tokens in the cache and query tokens of each
	shared                  int  // tokens at the start of all contexts that lie in common blocks
	cascade                 bool // common blocks are read once
	mass                    bool // the attention mass is accumulated
	int8Query               bool
	inOrder                 bool // there is no table: sequence i is block i
}

func (s step) format() backend.Format {
	return backend.Format{Act: s.act, K: s.stored, V: s.layer().values()}
}

// slots is those of a block.
func (s step) slots() int {
	if s.block == contiguous {
		return s.context
	}
	return s.block
}

// blocks is how many a sequence has for itself.
func (s step) blocks() int { return (s.context-s.shared-1)/s.slots() + 1 }

// layer is the cache of all sequences.
func (s step) layer() layer {
	return layer{s.heads, s.stored, s.shared + s.batch*s.blocks()*s.slots(), s.slots()}
}

// read is the cache as the sequences read it, each for itself.
func (s step) read() layer { return layer{s.heads, s.stored, s.batch * s.context, s.slots()} }

// table is the blocks of all sequences.
func (s step) table() []uint32 {
	ids, first, own := shuffled(s.layer().blocks()), s.shared/s.slots(), s.blocks()
	var table []uint32
	for i := range s.batch {
		table = append(append(table, ids[:first]...), ids[first+i*own:][:own]...)
	}
	return table
}

// places is the slots of all tokens, of one sequence after the other.
func (s step) places() (out []int64) {
	table, block := s.table(), s.slots()
	stride := len(table) / s.batch
	for i := range s.batch {
		for t := range s.context {
			out = append(out, int64(table[i*stride+t/block])*int64(block)+int64(t%block))
		}
	}
	return out
}

// work is products with what the queries see, and the keys and values once: each query token
// sees the keys up to its own, and 2 operations are for each element of a key and of its value. Common blocks
// count for each sequence.
func (s step) work() work {
	seen := s.queries*s.context - s.queries*(s.queries-1)/2
	return work{bytes: float64(s.read().bytes()), flops: 2 * float64(s.batch) * float64(seen) * float64(s.query*(s.dim+s.valueDim())), bound: reading}
}

// attention makes the operands of a step, and returns its call.
func attention[B backend.Buffer](m *memory[B], from source[B], s step) (*operation, error) {
	p, cache, err := operands(m, from, s)
	return attends(m, p, cache), err
}

// attends is the calls of a step with its operands.
func attends[B backend.Buffer](m *memory[B], p backend.AttendParams[B], cache func(turn int) backend.CacheView[B]) *operation {
	return &operation{call: func(turn int) error {
		p.Cache = cache(turn)
		return m.be.Attend(m.stream, p)
	}}
}

// operands is those of a step but for the cache, which differs from one turn to the next.
func operands[B backend.Buffer](m *memory[B], from source[B], s step) (backend.AttendParams[B], func(turn int) backend.CacheView[B], error) {
	table, tokens := s.table(), s.batch*s.queries
	shape := backend.AttendShape{QHeads: s.query, KVHeads: s.kv, KDim: s.dim, VDim: s.valueDim(), BlockSize: s.slots(), Format: s.format(), Latent: s.latent > 0, Scores: s.mass}
	offsets := []uint32{0}
	for i := range s.batch {
		shape.ContextLens, shape.QueryLens = append(shape.ContextLens, uint32(s.context)), append(shape.QueryLens, uint32(s.queries))
		offsets = append(offsets, uint32((i+1)*s.queries))
	}
	if s.cascade {
		shape.Table, shape.TableStride = table, len(table)/s.batch
	}
	plan, err := m.be.PlanAttend(shape)
	if err != nil {
		return backend.AttendParams[B]{}, nil, err
	}
	rows := tokens * s.query
	p := backend.AttendParams[B]{
		Q: backend.Dense(m.filled(s.act, rows*s.dim)), QHeads: s.query, Scale: float32(1 / math.Sqrt(float64(s.dim))), Int8Query: s.int8Query,
		Batch: backend.Ragged[B]{Seqs: s.batch, Tokens: tokens, ContextLens: upload(m, backend.U32, shape.ContextLens),
			QueryOffsets: backend.Some(upload(m, backend.U32, offsets))},
		Out: backend.Outputs[B]{Rows: backend.Dense(m.alloc(s.act, rows*s.valueDim()))}, Plan: plan,
	}
	if !s.inOrder {
		p.Batch.Table, p.Batch.TableStride = backend.Some(upload(m, backend.U32, table)), len(table)/s.batch
	}
	if len(plan.Work) > 0 {
		p.Work = backend.Some(upload(m, backend.U32, plan.Work))
	}
	if plan.Workspace > 0 {
		p.Workspace = backend.Some(m.alloc(backend.F32, plan.Workspace))
	}
	if s.mass {
		p.Out.Scores = backend.Some(m.constant(backend.F32, s.layer().slots*s.kv, 0))
	}
	return p, from.layer(s.layer(), toRead), m.err
}
