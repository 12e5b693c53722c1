package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// merged is what a device made of a case of merging, and what it had to.
type merged struct {
	out, lse, wantOut, wantLSE []float64 // rows of dim elements, and a log-sum-exp each
	dim                        int
	shape                      []axisOf
}

// checkMerge merges random parts. Every fourth part of a row is empty, and every
// fifth row has nothing but empty parts: by a log-sum-exp of −∞, of +∞, or of either in
// turns. What an empty part's vector holds must not matter.
func checkMerge[B backend.Buffer](r *rig[B], s mergeSpec) {
	m := runMerge(r, s, func(row, part int, v []float32) float32 {
		if row%5 != 4 && (row+part)%4 != 3 {
			return float32(8 * r.rng.NormFloat64())
		}
		v[0], v[len(v)/2], v[len(v)-1] = 60000, float32(math.NaN()), -60000
		if row%3 == 0 || row%3 == 1 && part%2 == 0 {
			return float32(math.Inf(1))
		}
		return float32(math.Inf(-1))
	})
	require.NoError(r, compareRows("merged", m.out, m.wantOut, m.dim, coarsest(s.in, s.out), m.shape...))
	if s.lse {
		require.NoError(r, compareLSE(m.lse, m.wantLSE, lseLimit, m.shape...))
	}
}

// checkMergeNaN merges rows of which every other one has a part with a log-sum-exp of
// NaN, beside parts that are empty or not: such a row becomes NaN, and so does its
// log-sum-exp; the others do not.
func checkMergeNaN[B backend.Buffer](r *rig[B], s mergeSpec) {
	s.parts, s.tokens, s.heads, s.lse = 3, 4, 3, true
	m := runMerge(r, s, func(row, part int, _ []float32) float32 {
		switch {
		case row%2 == 1 && part == row%3:
			return float32(math.NaN())
		case row%4 == 1:
			return float32(math.Inf(1 - 2*(part%2)))
		}
		return float32(r.rng.NormFloat64())
	})
	for row, lse := range m.lse {
		bad := row%2 == 1
		require.Equal(r, bad, math.IsNaN(m.wantLSE[row]), "the oracle's log-sum-exp of row %d", row)
		require.Equal(r, bad, math.IsNaN(lse), "log-sum-exp of row %d is %v", row, lse)
		for i, x := range m.out[row*m.dim:][:m.dim] {
			require.Equal(r, bad, math.IsNaN(x), "element %d of row %d is %v", i, row, x)
		}
	}
}

// runMerge merges normally distributed vectors, which fill may change, by the
// log-sum-exps that it returns.
func runMerge[B backend.Buffer](r *rig[B], s mergeSpec, fill func(row, part int, v []float32) float32) merged {
	kDim, vDim := r.dims(s.dim, s.dim)
	r.needs(backend.Format{Act: s.out, K: s.out, V: s.out}, kDim, vDim, 0, false)
	r.seed(s.name)
	rows := s.tokens * s.heads
	m := merged{dim: vDim, shape: []axisOf{{"token", s.tokens}, {"head", s.heads}}}
	in := r.region("parts", s.in, 0, s.parts*rows*m.dim)
	lse := r.region("log-sum-exp of parts", backend.F32, 0, s.parts*rows)
	out := r.vectors("merged", s.out, s.tokens, s.heads*m.dim, s.strided)
	p := backend.MergeParams[B]{Parts: s.parts, Tokens: s.tokens, Heads: s.heads, Dim: m.dim,
		In: in.buf, LSE: lse.buf, Out: out.rows()}
	var outLSE *region[B]
	if s.lse {
		outLSE = r.region("merged log-sum-exp", backend.F32, 0, rows)
		p.OutLSE = backend.Some(outLSE.buf)
	}
	for row := range rows {
		var parts []partial
		for part := range s.parts {
			v := r.normal(m.dim)
			l := fill(row, part, v)
			at := part*rows + row
			in.set(at*m.dim, encode(s.in, v))
			lse.set(at, encode(backend.F32, []float32{l}))
			parts = append(parts, partial{vector(decode(s.in, in.part(in.image, at*m.dim, m.dim))), float64(l)})
		}
		all := merge(parts, m.dim)
		m.wantOut, m.wantLSE = append(m.wantOut, all.out.Raw()...), append(m.wantLSE, all.lse)
	}
	r.push()
	require.NoError(r, r.be.Merge(r.s, p))
	got := r.fetch(out.region)
	m.out = out.values(got)
	out.accept(got)
	if outLSE != nil {
		got := outLSE.part(r.fetch(outLSE), 0, rows)
		m.lse = widen(decode(backend.F32, got))
		outLSE.set(0, got)
	}
	r.verify()
	return m
}
