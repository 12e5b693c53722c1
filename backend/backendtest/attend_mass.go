package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// givenOffset is the element at which given log-sum-exps begin in their buffer.
const givenOffset = 5

// shifts are by how much given log-sum-exps are above those of attention, as they are where keys are
// elsewhere, too. Infinite ones are given as such.
var shifts = [...]float64{0, 0.7, 0, 2.5, math.Inf(1), 0, math.Inf(-1)}

// shiftOf is the shift of a row [token, head].
func shiftOf(row int) float64 { return shifts[row%len(shifts)] }

// weighing is a call for the mass alone of what a call of attention sees.
func weighing[B backend.Buffer](p *backend.AttendParams[B], lse B, offset int) backend.AttendScoresParams[B] {
	return backend.AttendScoresParams[B]{Cache: p.Cache, Batch: p.Batch, Q: p.Q, QHeads: p.QHeads, Scale: p.Scale, Mask: p.Mask,
		LSE: lse, LSEOffset: offset, Scores: p.Out.Scores.Buf, Plan: p.Plan, Work: p.Work, Int8Query: p.Int8Query}
}

// weigh adds the mass of the case again, under log-sum-exps that are given: those of the reference, some of them
// shifted, so that they are not what a device would find by itself. Half of the cases leave the sink
// logits out, which are in the log-sum-exps.
func (a *attendRun[B]) weigh(e expected) {
	given := make([]float32, len(e.lse))
	for row, lse := range e.lse {
		if shift := shiftOf(row); math.IsInf(shift, 0) {
			given[row] = float32(shift)
		} else {
			given[row] = float32(lse + shift)
		}
	}
	a.given.set(0, encode(backend.F32, given))
	p := weighing(&a.params, a.given.buf, givenOffset)
	if a.tokens()%2 == 0 {
		p.Mask.SinkLogits = backend.Opt[B]{}
	}
	a.r.push()
	require.NoError(a.r, a.r.be.AttendScores(a.r.s, p))
	limit, _ := a.limits()
	a.compareMass(e.more, limit)
	a.r.verify()
}

// attendMassOperation adds the mass of attendOperation's call.
func attendMassOperation[B backend.Buffer](in kind[B]) operation[B, backend.AttendScoresParams[B]] {
	return operation[B, backend.AttendScoresParams[B]]{
		name: "attend scores" + in.name,
		good: func(r *rig[B]) backend.AttendScoresParams[B] {
			p := attendOperation(in).good(r)
			given := constant(r, "given", backend.F32, r.normal(givenOffset+p.Batch.Tokens*p.QHeads))
			return weighing(&p, given.buf, givenOffset)
		},
		call: func(r *rig[B], p backend.AttendScoresParams[B]) error { return r.be.AttendScores(r.s, p) },
	}
}

func attendMassAsked[B backend.Buffer](p *backend.AttendScoresParams[B]) asked[B] {
	return asked[B]{&p.Batch, &p.Q, &p.QHeads, &p.Scale, &p.Mask, &p.Plan, &p.Work}
}

func attendMassSpoils[B backend.Buffer]() []spoil[B, backend.AttendScoresParams[B]] {
	type params = backend.AttendScoresParams[B]
	var none B
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	plain := func(name string, do func(p *params)) { add(name, func(_ *rig[B], p *params) { do(p) }) }
	for name, of := range map[string]func(p *params) *B{
		"log-sum-exp":      func(p *params) *B { return &p.LSE },
		"attention scores": func(p *params) *B { return &p.Scores },
	} {
		plain("no "+name, func(p *params) { *of(p) = none })
		add(name+" too short", func(r *rig[B], p *params) {
			*of(p) = r.exact("short "+name, backend.F32, (*of(p)).Len()-guard-1).buf
		})
		add(name+" of another type", func(r *rig[B], p *params) {
			*of(p) = r.region(name+" of f16", backend.F16, 0, (*of(p)).Len()).buf
		})
	}
	for name, n := range map[string]int{"a negative": -1, "a too large": givenOffset + guard + 1, "an overflowing": math.MaxInt} {
		plain(name+" log-sum-exp offset", func(p *params) { p.LSEOffset = n })
	}
	plain("log-sum-exps in the attention scores", func(p *params) { p.LSE, p.LSEOffset = p.Scores, 0 })
	plain("a plan that was not made for mass", func(p *params) { p.Plan.Scores = false })
	return out
}

// checkUndefinedLSE gives one query of two a log-sum-exp of NaN: the mass of the keys that it sees is NaN,
// and of no others.
func checkUndefinedLSE[B backend.Buffer](r *rig[B]) {
	s := small("undefined log-sum-exp", sequence{1, 40}, sequence{1, 33})
	s.format, s.layout.block = r.plain(), r.blockSize(16)
	s.kDim, s.vDim = r.dims(64, 64)
	a := newAttend(r, s)
	given := make([]float32, s.tokens()*s.qHeads)
	given[0] = float32(math.NaN())
	for i := s.qHeads; i < len(given); i++ {
		given[i] = float32(math.Inf(1))
	}
	a.given.set(0, encode(backend.F32, given))
	r.push()
	require.NoError(r, r.be.AttendScores(r.s, weighing(&a.params, a.given.buf, givenOffset)))
	got := r.fetch(a.mass)
	for token := range s.seqs[0].context {
		slot := a.slot(0, token)
		at := slot / a.cache.block * a.kvHeads * a.cache.block // of head 0
		at += slot % a.cache.block
		v := decode(backend.F32, a.mass.part(got, at, 1))[0]
		require.True(r, v != v, "the mass of token %d is %v", token, v)
		for head := range a.kvHeads {
			at := at + head*a.cache.block
			a.mass.set(at, a.mass.part(got, at, 1))
		}
	}
	r.verify()
}
