package backendtest

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/stretchr/testify/require"
)

func allocationChecks[B backend.Buffer]() []check[B] {
	return []check[B]{
		{"a warm step allocates nothing on the Go heap", func(r *rig[B]) {
			checkWarmStep(r, r.plain())
			checkWarmMass(r)
		}},
		{"blocks to the host and back", checkWarmBlockSet[B]},
		{"a warm step of trees, images and chunks", func(r *rig[B]) {
			s := mixed("warm")
			s.mask.alibi = true
			checkWarmAttend(r, s)
			s = small("warm chunks", sequence{1, 900}, sequence{30, 70})
			s.mask.chunk = 64
			checkWarmAttend(r, s)
		}},
		{"a warm step of a quantized cache", func(r *rig[B]) {
			checkWarmStep(r, r.quantized())
			checkWarmConvert(r)
		}},
	}
}

// checkWarmStep plans, uploads, copies and moves, appends, attends and merges with
// operands that exist.
func checkWarmStep[B backend.Buffer](r *rig[B], f backend.Format) {
	if race.Enabled {
		r.skip("the race detector allocates")
	}
	in := kind[B]{format: func(*rig[B]) backend.Format { return f }}
	s := small("warm step", sequence{1, 900}, sequence{1, 30}, sequence{6, 40})
	s.format, s.output = f, outputSpec{lse: true}
	s.kDim, s.vDim = r.dims(64, 64)
	a := newAttend(r, s)
	e := rotary{10000, s.kDim, backend.HalfSplit, 1}
	appended := newAppend(r, appendSpec{qHeads: s.qHeads, kvHeads: s.kvHeads, kDim: s.kDim, vDim: s.vDim,
		block: s.block(), blocks: 4, tokens: 8, format: f, rotary: &e, hadamard: f.K.Quantized()})
	merged := backend.MergeParams[B]{Parts: 1, Tokens: s.tokens(), Heads: s.qHeads, Dim: s.vDim, In: a.out.buf,
		LSE: r.region("log-sum-exp", backend.F32, 0, s.tokens()*s.qHeads).buf,
		Out: r.vectors("merged", f.Act, s.tokens(), s.qHeads*s.vDim, false).rows()}
	copied, moved, gathered, rotated := copyOperation(in).good(r), moveOperation(in).good(r), gatherOperation(in).good(r), rotateOperation(in).good(r)
	other := appended.params // of which keys are turned or not, the other way round
	other.Cache.K.Hadamard = !other.Cache.K.Hadamard
	r.push()
	lens := backend.BytesOf(a.shape.ContextLens)
	a.shape.Work = make([]uint32, 0, len(a.params.Plan.Work))
	r.warm(map[string]func() error{
		"plan": func() error {
			_, err := r.be.PlanAttend(a.shape)
			return err
		},
		"upload":                func() error { return r.be.Upload(r.s, a.params.Batch.ContextLens, 0, lens) },
		"copy":                  func() error { return r.be.CopyBlocks(r.s, copied) },
		"move":                  func() error { return r.be.MoveSlots(r.s, moved) },
		"gather":                func() error { return r.be.Gather(r.s, gathered) },
		"rotate":                func() error { return r.be.Rotate(r.s, rotated) },
		"append":                func() error { return r.be.Append(r.s, appended.params) },
		"append, turned or not": func() error { return r.be.Append(r.s, other) },
		"attend":                func() error { return r.be.Attend(r.s, a.params) },
		"merge":                 func() error { return r.be.Merge(r.s, merged) },
	})
}

// checkWarmAttend plans and attends, with attention scores, where the device lists the masks.
func checkWarmAttend[B backend.Buffer](r *rig[B], s attendSpec) {
	if race.Enabled {
		r.skip("the race detector allocates")
	}
	r.wants(&s)
	s.format, s.layout.block = r.plain(), r.blockSize(16)
	s.kDim, s.vDim = r.dims(64, 64)
	a := newAttend(r, s)
	a.given.set(0, encode(backend.F32, make([]float32, a.given.n)))
	alone := weighing(&a.params, a.given.buf, givenOffset)
	r.push()
	a.shape.Work = make([]uint32, 0, len(a.params.Plan.Work))
	r.warm(map[string]func() error{
		"plan": func() error {
			_, err := r.be.PlanAttend(a.shape)
			return err
		},
		"attend":        func() error { return r.be.Attend(r.s, a.params) },
		"attend scores": func() error { return r.be.AttendScores(r.s, alone) },
	})
}

// checkWarmConvert quantizes blocks and reads them back.
func checkWarmConvert[B backend.Buffer](r *rig[B]) {
	pack := convertOperation[B]().good(r)
	unpack := backend.ConvertBlocksParams[B]{From: pack.To, To: pack.From, FromScores: pack.ToScores, ToScores: pack.FromScores, N: 1, Pairs: constant(r, "pairs back", backend.U32, []uint32{2, 1}).buf}
	r.push()
	require.NoError(r, r.be.ConvertBlocks(r.s, pack)) // what is there to be read back
	r.warm(map[string]func() error{
		"pack":   func() error { return r.be.ConvertBlocks(r.s, pack) },
		"unpack": func() error { return r.be.ConvertBlocks(r.s, unpack) },
	})
}

// warm counts the allocations of steps that have been done before.
func (r *rig[B]) warm(steps map[string]func() error) {
	for name, step := range steps {
		for range 5 { // until every worker has its scratch
			require.NoError(r, step(), name)
		}
		allocs := testing.AllocsPerRun(20, func() { _ = step() })
		require.Zero(r, allocs, "allocations of %s", name)
	}
	require.NoError(r, r.s.Sync())
}
