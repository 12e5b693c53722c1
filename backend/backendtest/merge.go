package backendtest

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// mergeSpec is a case of merging, complete and without a device.
type mergeSpec struct {
	name                      string
	parts, tokens, heads, dim int
	in, out                   backend.DType
	strided, lse              bool
}

func mergeChecks[B backend.Buffer]() []check[B] {
	var specs []mergeSpec
	add := func(name string, s mergeSpec) {
		for _, out := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
			s.name, s.in, s.out = fmt.Sprintf("%s in %s", name, out), out, out
			specs = append(specs, s)
			if out != backend.F32 {
				s.name, s.in = fmt.Sprintf("%s in f32 to %s", name, out), backend.F32
				specs = append(specs, s)
			}
		}
	}
	add("one part", mergeSpec{parts: 1, tokens: 3, heads: 2, dim: 64, lse: true})
	add("two parts", mergeSpec{parts: 2, tokens: 65, heads: 8, dim: 128, lse: true})
	add("two parts to strided rows", mergeSpec{parts: 2, tokens: 5, heads: 4, dim: 80, strided: true})
	add("no tokens", mergeSpec{parts: 2, heads: 2, dim: 64, lse: true})
	add("many parts", mergeSpec{parts: 33, tokens: 2, heads: 3, dim: 192, lse: true})
	var out []check[B]
	for _, s := range specs {
		out = append(out, check[B]{s.name, func(r *rig[B]) { checkMerge(r, s) }})
	}
	for _, s := range specs[:5] { // each pair of types
		s.name = "a log-sum-exp of NaN" + strings.TrimPrefix(s.name, "one part")
		out = append(out, check[B]{s.name, func(r *rig[B]) { checkMergeNaN(r, s) }})
	}
	for _, f := range formatAxis[:3] {
		out = append(out, check[B]{"shared prefix and own suffixes in " + formatName(f), func(r *rig[B]) { checkCascade(r, f) }})
	}
	return out
}

// checkCascade attends over a prefix and over what follows it in two calls that
// write into one buffer, merges them, and compares with attention over the
// whole: what sharing a prefix between sequences relies on. The prefix is read
// by all sequences' queries as one sequence, without a causal mask.
func checkCascade[B backend.Buffer](r *rig[B], f backend.Format) {
	const prefixBlocks, parts = 3, 2
	s := small("cascade").listed(r.be.Caps())
	prefix := prefixBlocks * s.block()
	s.seqs = []sequence{{1, prefix + 22}, {5, prefix + 5}, {3, prefix + 3}}
	s.format, s.output = f, outputSpec{}
	r.needs(f, s.kDim, s.vDim, s.layout.block, true)
	r.seed(s.name)
	a := newAttend(r, s)
	for i := range a.tables { // all sequences share the first one's prefix
		copy(a.tables[i], a.tables[0][:prefixBlocks])
	}
	tokens, width := s.tokens(), s.qHeads*s.vDim
	in := r.vectors("parts", f.Act, parts*tokens, width, false)
	lse := r.region("log-sum-exp of parts", backend.F32, 0, parts*tokens*s.qHeads)

	whole, own := a.params, a.params
	whole.Batch = r.batchOf([]sequence{{tokens, prefix}}, a.tables[:1])
	whole.Mask.NonCausal = true
	var suffixes []sequence
	var tables [][]int
	for i, seq := range s.seqs {
		suffixes = append(suffixes, sequence{seq.queries, seq.context - prefix})
		tables = append(tables, a.tables[i][prefixBlocks:])
	}
	own.Batch = r.batchOf(suffixes, tables)
	for i, p := range []*backend.AttendParams[B]{&whole, &own} {
		p.Out = backend.Outputs[B]{Rows: backend.Rows[B]{Buf: in.buf, Offset: i * tokens * width},
			LSE: backend.Some(lse.buf), LSEOffset: i * tokens * s.qHeads}
		p.Plan, p.Work, p.Workspace = r.plan(shapeOf(a.shape, [][]sequence{{{tokens, prefix}}, suffixes}[i], i == 0))
	}
	r.push()
	require.NoError(r, r.be.Attend(r.s, whole))
	require.NoError(r, r.be.Attend(r.s, own))
	require.NoError(r, r.be.Merge(r.s, backend.MergeParams[B]{Parts: parts, Tokens: tokens, Heads: s.qHeads, Dim: s.vDim,
		In: in.buf, LSE: lse.buf, Out: a.out.rows()}))
	in.accept(r.fetch(in.region))
	lse.set(0, lse.part(r.fetch(lse), 0, lse.n))
	e := a.expect()
	got := r.fetch(a.out.region)
	require.NoError(r, compareRows("merged", a.out.values(got), e.out, s.vDim, 2*coarsest(f.Act), // rounded twice
		axisOf{"token", tokens}, axisOf{"head", s.qHeads}))
	a.out.accept(got)
	r.verify()
}

// batchOf uploads sequences that lie in the given blocks.
func (r *rig[B]) batchOf(seqs []sequence, tables [][]int) backend.Ragged[B] {
	b := backend.Ragged[B]{Seqs: len(seqs)}
	lens, offsets, ids := []uint32{}, []uint32{0}, []uint32{}
	for i, seq := range seqs {
		b.Tokens += seq.queries
		b.TableStride = max(b.TableStride, len(tables[i]))
		lens, offsets = append(lens, uint32(seq.context)), append(offsets, uint32(b.Tokens))
	}
	for _, blocks := range tables {
		for j := range b.TableStride {
			ids = append(ids, uint32(blocks[min(j, len(blocks)-1)]))
		}
	}
	b.ContextLens = constant(r, "context lengths", backend.U32, lens).buf
	b.QueryOffsets = backend.Some(constant(r, "query offsets", backend.U32, offsets).buf)
	b.Table = backend.Some(constant(r, "block table", backend.U32, ids).buf)
	return b
}

// shapeOf is a shape with other sequences.
func shapeOf(s backend.AttendShape, seqs []sequence, nonCausal bool) backend.AttendShape {
	s.ContextLens, s.QueryLens, s.NonCausal = nil, nil, nonCausal
	for _, seq := range seqs {
		s.ContextLens = append(s.ContextLens, uint32(seq.context))
		s.QueryLens = append(s.QueryLens, uint32(seq.queries))
	}
	return s
}
