package backendtest

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func allocationChecks[B backend.Buffer]() []check[B] {
	return []check[B]{{"a warm step allocates nothing on the Go heap", checkWarmStep[B]}}
}

// checkWarmStep plans, uploads, copies blocks, appends, attends and merges with
// operands that exist.
func checkWarmStep[B backend.Buffer](r *rig[B]) {
	if raceDetector {
		r.skip("the race detector allocates")
	}
	f := r.plain()
	s := small("warm step", sequence{1, 900}, sequence{1, 30}, sequence{6, 40})
	s.format, s.output = f, outputSpec{lse: true}
	s.kDim, s.vDim = r.dims(64, 64)
	a := newAttend(r, s)
	e := rotary{10000, s.kDim, backend.HalfSplit, 1}
	appended := newAppend(r, appendSpec{qHeads: s.qHeads, kvHeads: s.kvHeads, kDim: s.kDim, vDim: s.vDim,
		block: s.block(), blocks: 4, tokens: 8, format: f, rotary: &e})
	merged := backend.MergeParams[B]{Parts: 1, Tokens: s.tokens(), Heads: s.qHeads, Dim: s.vDim, In: a.out.buf,
		LSE: r.region("log-sum-exp", backend.F32, 0, s.tokens()*s.qHeads).buf,
		Out: r.vectors("merged", f.Act, s.tokens(), s.qHeads*s.vDim, false).rows()}
	copied := copyOperation[B]().good(r)
	r.push()
	lens := backend.BytesOf(a.shape.ContextLens)
	a.shape.Work = make([]uint32, 0, len(a.params.Plan.Work))
	for name, step := range map[string]func() error{
		"plan": func() error {
			_, err := r.be.PlanAttend(a.shape)
			return err
		},
		"upload": func() error { return r.be.Upload(r.s, a.params.Batch.ContextLens, 0, lens) },
		"copy":   func() error { return r.be.CopyBlocks(r.s, copied) },
		"append": func() error { return r.be.Append(r.s, appended.params) },
		"attend": func() error { return r.be.Attend(r.s, a.params) },
		"merge":  func() error { return r.be.Merge(r.s, merged) },
	} {
		for range 5 { // until every worker has its scratch
			require.NoError(r, step(), name)
		}
		allocs := testing.AllocsPerRun(20, func() { _ = step() })
		require.Zero(r, allocs, "allocations of %s", name)
	}
	require.NoError(r, r.s.Sync())
}
