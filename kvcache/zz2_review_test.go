package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func zzScores(t *testing.T, interleave bool, residual int) float64 {
	cfg := small(Paged)
	cfg.Memory.Capacity = 200
	cfg.Storage.K, cfg.Model.Act, cfg.Storage.Residual = backend.Int8, backend.F32, residual
	cfg.Attention.Scores = true
	w := newMixed(t, cfg)
	s := w.fresh()
	require.NoError(t, w.run(deal{told: s, ids: sequence(1, 60)}))
	require.NoError(t, s.seq.ClearScores(w.s))
	second := w.pool.NewBatch()
	c := &w.pool.cfg.Model
	q, out := w.vector(w.s, make([]float32, 3*c.QHeads*c.HeadDim)), w.vector(w.s, make([]float32, 3*c.QHeads*c.VHeadDim))
	views := []View{{20, 60}, {20, 60}, {20, 60}}
	if interleave {
		require.NoError(t, w.step.Query(s.seq, views))
		require.NoError(t, second.Query(s.seq, views))
		require.NoError(t, w.step.Plan(w.s))
		require.NoError(t, second.Plan(w.s))
		for l := range c.Layers {
			require.NoError(t, w.step.Attend(l, attending(q, out)))
			require.NoError(t, second.Attend(l, attending(q, out)))
		}
		require.NoError(t, w.step.Commit())
		require.NoError(t, second.Commit())
	} else {
		for _, b := range []*Batch[buffer]{w.step, second} {
			require.NoError(t, b.Query(s.seq, views))
			require.NoError(t, b.Plan(w.s))
			for l := range c.Layers {
				require.NoError(t, b.Attend(l, attending(q, out)))
			}
			require.NoError(t, b.Commit())
		}
	}
	dst := make([]float32, c.Layers*c.KVHeads*60)
	require.NoError(t, s.seq.Scores(w.s, 0, dst))
	sum := 0.0
	for _, x := range dst {
		sum += float64(x)
	}
	w.free(q, out)
	require.NoError(t, second.Close())
	w.drop(s)
	w.close()
	return sum
}

func TestZZScoresRace(t *testing.T) {
	for _, r := range []int{0, 3, 9, 20} {
		t.Log(r, zzScores(t, false, r), zzScores(t, true, r))
	}
}
