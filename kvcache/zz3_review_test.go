package kvcache

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func TestZZNonCausalSinks(t *testing.T) {
	for name, masks := range map[string][]Mask{"both": {{Window: 7, SinkTokens: 2}, {}}, "one": {{Window: 7, SinkTokens: 2}}, "sinks alone": {{SinkTokens: 2}},
		"huge": {{Window: math.MaxInt}, {Window: math.MaxInt - 1}}, "overflow": {{Window: math.MaxInt, SinkTokens: 1, Chunk: 4}}} {
		t.Run(name, func(t *testing.T) {
			cfg := small(Paged)
			cfg.Model.NonCausal = true
			cfg.Model.Masks = masks
			w := newMixed(t, cfg)
			s := w.fresh()
			require.NoError(t, w.run(deal{told: s, ids: sequence(1, 20)}))
			require.NoError(t, w.run(deal{told: s, views: once(2, 20)}))
			w.drop(s)
			w.close()
		})
	}
}

func TestZZLatentEqual(t *testing.T) {
	cfg := latents(Paged, backend.F32)
	cfg.Model.HeadDim, cfg.Model.VHeadDim = 32, 32
	w := newMixed(t, cfg)
	s := w.fresh()
	require.NoError(t, w.step.Add(s.seq, []uint32{1, 2}))
	require.NoError(t, w.step.Plan(w.s))
	q, v, out := w.vector(w.s, make([]float32, 2*8*32)), w.vector(w.s, make([]float32, 2*32)), w.vector(w.s, make([]float32, 2*8*32))
	io := LayerIO[buffer]{Q: backend.Dense(q), V: backend.Dense(v), Out: backend.Dense(out)}
	t.Log(w.step.Append(0, io))
	e, err := w.be.Alloc(backend.F32, 0)
	t.Log(err)
	if err == nil {
		io.K = backend.Dense(e)
		t.Log(w.step.Append(0, io))
	}
}
