package backendtest

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// splitChecks merge the two parts: it is what sees all keys, and gives them the same mass.
func splitChecks[B backend.Buffer](caps backend.Caps) []check[B] {
	var out []check[B]
	add := func(s attendSpec, recent int) {
		s.output = outputSpec{lse: true, mass: true}
		s.name = fmt.Sprintf("older and recent by %d keys, %s", recent, s.name)
		out = append(out, check[B]{s.name, func(r *rig[B]) { checkSplit(r, s.listed(caps), recent) }})
	}
	seqs := []sequence{{1, 90}, {40, 77}, {3, 150}, {1, 0}}
	for _, f := range plainFormats(caps) {
		for _, recent := range []int{1, 20, 64} {
			for _, window := range []int{0, 13, 37, 90} {
				s := small(fmt.Sprintf("window %d, in %s", window, f.Act), seqs...)
				s.format = f
				s.mask = maskSpec{window: window, sinkTokens: 30, softCap: 2, alibi: true}
				add(s, recent)
			}
		}
	}
	for i, f := range sampled(caps) {
		s := small("in "+formatName(f), seqs...)
		s.format, s.mask.sinkLogits = f, true
		s.layout = layoutAxis[i%len(layoutAxis)]
		add(s, 17)
	}
	for _, s := range sharedSpecs() {
		if !s.mask.nonCausal {
			s.format = plainFormat(caps)
			add(s, 9)
		}
	}
	for i, m := range []maskSpec{{}, {window: 12, sinkTokens: 3}, {chunk: 10}, {softCap: 2, alibi: true}} {
		for j, layout := range layoutAxis {
			s := mixed(fmt.Sprintf("mask %d in %s", i, layout.name))
			s.format, s.mask, s.layout = plainFormat(caps), m, layout
			add(s, 1+9*j)
		}
	}
	rows := small("many rows", seqs...)
	rows.format, rows.qHeads, rows.mask.sinkLogits = plainFormat(caps), 32, true
	add(rows, 20)
	return out
}

// splitRun is a case of attention in two parts.
type splitRun[B backend.Buffer] struct {
	*attendRun[B]
	calls     []backend.AttendParams[B] // over older keys and over recent ones
	in        *vectors[B]               // their rows
	partLSE   *region[B]                // and log-sum-exps
	mergedLSE *region[B]                // those of both
	whole     backend.AttendParams[B]   // the call over all keys
	wholeMass *region[B]                // of that
}

// newSplit makes the calls of each part, each with a table of its own that has poison for what the other
// shows. A sink logit is counted once, with recent keys.
func newSplit[B backend.Buffer](r *rig[B], s attendSpec, recent int) *splitRun[B] {
	a := &splitRun[B]{attendRun: newAttend(r, s)}
	tokens, width := s.tokens(), s.qHeads*s.vDim
	a.in = r.vectors("parts", s.format.Act, 2*tokens, width, false)
	a.partLSE = r.region("log-sum-exp of parts", backend.F32, 0, 2*tokens*s.qHeads)
	a.mergedLSE = r.region("merged log-sum-exp", backend.F32, 0, tokens*s.qHeads)
	for i, part := range []backend.Part{backend.OlderKeys, backend.ResidualKeys} {
		own := *a.attendRun
		own.attendSpec.mask.part, own.attendSpec.mask.recent = part, recent
		own.params.Batch = own.batch()
		p, shape := own.params, a.shape
		p.Mask.Part, p.Mask.Residual, shape.Part, shape.Residual = part, recent, part, recent
		if part == backend.OlderKeys {
			p.Mask.SinkLogits = backend.Opt[B]{}
		}
		own.tell(&shape)
		p.Out = backend.Outputs[B]{Rows: backend.Rows[B]{Buf: a.in.buf, Offset: i * tokens * width},
			LSE: backend.Some(a.partLSE.buf), LSEOffset: i * tokens * s.qHeads}
		p.Plan, p.Work, p.Workspace = r.plan(shape)
		a.calls = append(a.calls, p)
	}
	a.whole = a.params
	a.wholeMass = r.region("attention scores of one call", backend.F32, 0, a.mass.n)
	a.wholeMass.set(0, a.mass.part(a.mass.image, 0, a.wholeMass.n))
	a.whole.Out = backend.Outputs[B]{Rows: r.vectors("rows of one call", s.format.Act, tokens, width, false).rows(), Scores: backend.Some(a.wholeMass.buf)}
	r.regions[len(r.regions)-1].scratch = true
	return a
}

// checkSplit attends over both parts, merges, and compares with attention over all keys; then it does so with the
// mass that keys get under the merged log-sum-exps.
func checkSplit[B backend.Buffer](r *rig[B], s attendSpec, recent int) {
	r.needsOf(s.latent, s.format, s.kDim, s.vDim, s.layout.block, s.layout.block > 0)
	r.wants(&s)
	r.seed(s.name)
	a := newSplit(r, s, recent)
	tokens := s.tokens()
	r.push()
	for _, p := range a.calls {
		require.NoError(r, r.be.Attend(r.s, p))
	}
	require.NoError(r, r.be.Merge(r.s, backend.MergeParams[B]{Parts: 2, Tokens: tokens, Heads: s.qHeads, Dim: s.vDim,
		In: a.in.buf, LSE: a.partLSE.buf, Out: a.out.rows(), OutLSE: backend.Some(a.mergedLSE.buf)}))
	for _, p := range a.calls {
		p.Out.Scores = a.params.Out.Scores
		require.NoError(r, r.be.AttendScores(r.s, weighing(&p, a.mergedLSE.buf, 0)))
	}
	require.NoError(r, r.be.Attend(r.s, a.whole))
	a.in.accept(r.fetch(a.in.region))
	for _, reg := range []*region[B]{a.partLSE, a.mergedLSE} {
		reg.set(0, reg.part(r.fetch(reg), 0, reg.n))
	}
	e := a.expect()
	limit := 2 * coarsest(s.format.Act) // rounded twice
	got := r.fetch(a.out.region)
	require.NoError(r, compareRows("merged", a.out.values(got), e.out, s.vDim, limit,
		axisOf{"token", tokens}, axisOf{"head", s.qHeads}))
	a.out.accept(got)
	a.compareMass(e.mass, limit)
	a.compareWhole(limit)
	r.verify()
}

// compareWhole compares the mass that the parts gave with that of one call.
func (a *splitRun[B]) compareWhole(limit float64) {
	whole := a.wholeMass.part(a.r.fetch(a.wholeMass), 0, a.wholeMass.n)
	parts := a.mass.part(a.mass.image, 0, a.mass.n)
	require.NoError(a.r, compareRows("attention scores of parts", widen(decode(backend.F32, parts)),
		widen(decode(backend.F32, whole)), a.cache.block, limit, axisOf{"block", a.cache.blocks}, axisOf{"KV head", a.kvHeads}))
	a.wholeMass.set(0, whole)
}
