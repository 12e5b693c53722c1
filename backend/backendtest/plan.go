package backendtest

import (
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func planChecks[B backend.Buffer]() []check[B] {
	return []check[B]{
		{"one shape, one plan", checkPlanAgain[B]},
		{"bad shapes", checkBadShapes[B]},
	}
}

// shape is a batch that mixes decode and prefill, in a format of the device.
func (r *rig[B]) shape() backend.AttendShape {
	s := backend.AttendShape{QHeads: 8, KVHeads: 2, BlockSize: r.blockSize(16), Format: r.plain(),
		ContextLens: []uint32{1, 0, 5000, 300, 64}, QueryLens: []uint32{1, 1, 1, 200, 64}}
	s.KDim, s.VDim = r.dims(128, 128)
	return s
}

// checkPlanAgain plans shapes into fresh, into used and into too little scratch.
func checkPlanAgain[B backend.Buffer](r *rig[B]) {
	var scratch []uint32
	caps := r.be.Caps()
	for _, change := range []func(*backend.AttendShape){
		func(s *backend.AttendShape) {
			if caps.Chunk {
				s.Chunk = 70
			}
		},
		func(s *backend.AttendShape) {
			if s.TreeWords = min(caps.TreeWords, 2); caps.Views {
				for i, n := range s.QueryLens {
					for j := range n {
						s.Views = append(s.Views, 17*j, min(s.ContextLens[i], 30*j))
					}
				}
			}
		},
		func(*backend.AttendShape) {},
		func(s *backend.AttendShape) { s.Scores = true },
		func(s *backend.AttendShape) { s.Window, s.SinkTokens = 100, 4 },
		func(s *backend.AttendShape) { s.NonCausal = true },
		func(s *backend.AttendShape) { s.Part, s.Residual = backend.OlderKeys, 70 },
		func(s *backend.AttendShape) {
			s.Part, s.Residual, s.Window, s.SinkTokens = backend.ResidualKeys, 70, 100, 4
		},
		func(s *backend.AttendShape) { s.ContextLens, s.QueryLens = []uint32{40000}, []uint32{1} },
	} {
		shape := r.shape()
		change(&shape)
		lens, queries := slices.Clone(shape.ContextLens), slices.Clone(shape.QueryLens)
		first, err := r.be.PlanAttend(shape)
		require.NoError(r, err)
		require.Equal(r, shape.Scores, first.Scores)
		require.Positive(r, first.Items)

		for _, work := range [][]uint32{scratch[:0], first.Work[len(first.Work):], make([]uint32, 0, 1)} {
			shape.Work = work
			again, err := r.be.PlanAttend(shape)
			require.NoError(r, err)
			require.True(r, slices.Equal(first.Work, again.Work), "the work depends on the scratch")
			again.Work, shape.Work = first.Work, nil
			require.Equal(r, first, again)
		}
		require.Equal(r, lens, shape.ContextLens)
		require.Equal(r, queries, shape.QueryLens)
		scratch = slices.Clone(first.Work)
	}
}

// checkBadShapes spoils a good shape in every way that the host can see.
func checkBadShapes[B backend.Buffer](r *rig[B]) {
	for name, spoil := range map[string]func(*backend.AttendShape){
		"no query heads":               func(s *backend.AttendShape) { s.QHeads = 0 },
		"negative query heads":         func(s *backend.AttendShape) { s.QHeads = -8 },
		"query heads not a multiple":   func(s *backend.AttendShape) { s.QHeads = 7 },
		"no KV heads":                  func(s *backend.AttendShape) { s.KVHeads = 0 },
		"negative KV heads":            func(s *backend.AttendShape) { s.KVHeads = -2 },
		"no key dim":                   func(s *backend.AttendShape) { s.KDim = 0 },
		"negative value dim":           func(s *backend.AttendShape) { s.VDim = -64 },
		"no block size":                func(s *backend.AttendShape) { s.BlockSize = 0 },
		"no format":                    func(s *backend.AttendShape) { s.Format = backend.Format{} },
		"activations of an index type": func(s *backend.AttendShape) { s.Format.Act = backend.U32 },
		"more lengths than queries":    func(s *backend.AttendShape) { s.QueryLens = s.QueryLens[:2] },
		"negative window":              func(s *backend.AttendShape) { s.Window = -1 },
		"negative sinks":               func(s *backend.AttendShape) { s.SinkTokens = -1 },
		"sinks and no causal mask":     func(s *backend.AttendShape) { s.NonCausal, s.SinkTokens = true, 8 },
		"a negative chunk":             func(s *backend.AttendShape) { s.Chunk = -1 },
		"a chunk and a window":         func(s *backend.AttendShape) { s.Chunk, s.Window = 8, 8 },
		"a chunk and sinks":            func(s *backend.AttendShape) { s.Chunk, s.SinkTokens = 8, 8 },
		"too few views":                func(s *backend.AttendShape) { s.Views = make([]uint32, 533) },
		"a view beyond the context":    func(s *backend.AttendShape) { s.Views = make([]uint32, 534); s.Views[3] = 1 },
		"a position beyond all":        func(s *backend.AttendShape) { s.Views = make([]uint32, 534); s.Views[2] = 1 << 31 },
		"views and no causal mask":     func(s *backend.AttendShape) { s.Views, s.NonCausal = make([]uint32, 534), true },
		"views in a fixed plan":        func(s *backend.AttendShape) { s.Views, s.Fixed = make([]uint32, 534), true },
		"a tree and no causal mask":    func(s *backend.AttendShape) { s.TreeWords, s.NonCausal = 1, true },
		"negative tree words":          func(s *backend.AttendShape) { s.TreeWords = -1 },
		"too many tree words":          func(s *backend.AttendShape) { s.TreeWords = 4000 },
		"recent tokens of all keys":    func(s *backend.AttendShape) { s.Residual = 8 },
		"no recent tokens":             func(s *backend.AttendShape) { s.Part = backend.OlderKeys },
		"negative recent tokens":       func(s *backend.AttendShape) { s.Part, s.Residual = backend.ResidualKeys, -1 },
		"a part that there is not":     func(s *backend.AttendShape) { s.Part, s.Residual = backend.ResidualKeys+1, 8 },
		"a part and no causal mask":    func(s *backend.AttendShape) { s.NonCausal, s.Part, s.Residual = true, backend.OlderKeys, 8 },
		"sizes that overflow":          func(s *backend.AttendShape) { s.QHeads, s.KVHeads = math.MaxInt-1, 2 },
	} {
		shape := r.shape()
		spoil(&shape)
		_, err := r.be.PlanAttend(shape)
		if !errorOf(err, backend.ErrArgument{}, backend.ErrUnsupported{}) {
			require.Fail(r, "wrong error", "%s: have %v, want ErrArgument or ErrUnsupported", name, err)
		}
	}
}
