package kvcache

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// What queries give is counted once, in steps one after another and in two that are open at once, which a sequence cannot have
// where a step takes scores to another cache and back.
func TestQueriesGiveScores(t *testing.T) {
	for _, residual := range []int{0, 3, 9, 20} { // of 60 tokens: position 20 reads what is kept in few bits for the last
		cfg := small(Paged)
		cfg.Memory.Capacity, cfg.Attention.Scores = 200, true
		cfg.Storage.K, cfg.Model.Act, cfg.Storage.Residual = backend.Int8, backend.F32, residual
		w := newMixed(t, cfg)
		c := &w.pool.cfg.Model
		s, second := w.fresh(), w.pool.NewBatch()
		require.NoError(t, w.run(deal{told: s, ids: sequence(1, 60)}))
		q, out := w.vector(w.s, make([]float32, 3*c.QHeads*c.HeadDim)), w.vector(w.s, make([]float32, 3*c.QHeads*c.VHeadDim))
		views := []View{{20, 60}, {20, 60}, {20, 60}}
		attend := func(layer int, steps ...*Batch[buffer]) {
			for _, b := range steps {
				require.NoError(t, b.Attend(layer, attending(q, out)))
			}
		}
		given := func() (sum float64) {
			dst := make([]float32, c.Layers*c.KVHeads*60)
			require.NoError(t, s.seq.Scores(w.s, 0, dst))
			require.NoError(t, s.seq.ClearScores(w.s))
			for _, x := range dst {
				sum += float64(x)
			}
			return sum
		}
		given()
		want := float64(2 * 3 * c.QHeads * c.Layers) // each query gives each head 1
		for _, b := range []*Batch[buffer]{w.step, second} {
			require.NoError(t, errors.Join(b.Query(s.seq, views), b.Plan(w.s)))
			for l := range c.Layers {
				attend(l, b)
			}
			require.NoError(t, b.Commit())
		}
		require.InDelta(t, want, given(), 1e-3, "Residual %d", residual)

		require.NoError(t, errors.Join(w.step.Query(s.seq, views[:2]), w.step.Query(s.seq, views[:1]), w.step.Plan(w.s)))
		err := errors.Join(second.Query(s.seq, views), second.Plan(w.s))
		if residual > 0 {
			require.ErrorIs(t, err, ErrBusy)
			want /= 2
			for l := range c.Layers {
				attend(l, w.step)
			}
		} else {
			require.NoError(t, err)
			for l := range c.Layers {
				attend(l, w.step, second)
			}
			require.NoError(t, second.Commit())
		}
		require.NoError(t, w.step.Commit())
		require.InDelta(t, want, given(), 1e-3, "Residual %d", residual)
		require.NoError(t, errors.Join(second.Reset(), second.Query(s.seq, views), second.Close()), "the other one is over")
		w.free(q, out)
		w.drop(s)
		w.close()
	}
}

// Queries are rotated to their positions, which are those of the tokens where some before them were dropped, in a step with new
// tokens and in one without.
func TestQueriesAreRotated(t *testing.T) {
	w := newMixed(t, small(Paged))
	a, b := w.fresh(), w.fresh()
	require.NoError(t, w.step.Add(a.seq, sequence(1, 10)))
	w.rotatedQueries(10)
	require.NoError(t, a.seq.Retain(w.s, [][]int{{0, 1, 2, 5, 6, 7, 8, 9}}, RetainOptions{}))
	require.Equal(t, 10, a.seq.NextPosition())
	require.NoError(t, w.step.Add(b.seq, sequence(1, 9)))
	w.rotatedQueries(9)
	require.NoError(t, w.step.Add(b.seq, sequence(1, 1)))
	want := w.rotatedQueries(1)
	require.NoError(t, w.step.Query(a.seq, []View{{7, 8}}))
	require.Equal(t, want, w.rotatedQueries(1), "both are at position 9")
	require.NoError(t, w.step.Query(a.seq, []View{{6, 8}}))
	require.NotEqual(t, want, w.rotatedQueries(1))

	positions := func() []uint32 {
		require.NoError(t, w.step.Plan(w.s))
		defer func() { require.NoError(t, w.step.Reset()) }()
		return w.step.step.Steps[0].Index.Positions.Host
	}
	require.NoError(t, w.step.AddTree(a.seq, []uint32{5}, []int{-1}))
	require.Equal(t, []uint32{10}, positions())
	require.NoError(t, w.step.Add(a.seq, []uint32{1, 2}))
	require.NoError(t, w.step.Query(b.seq, []View{{3, 4}}))
	require.NoError(t, w.step.AddTree(a.seq, []uint32{5, 6, 7}, []int{-1, 0, 0}))
	require.Equal(t, []uint32{10, 11, 3, 12, 13, 13}, positions())
	w.drop(a)
	w.drop(b)
	w.close()
}

// rotatedQueries runs a step of n rows that are always the same, and returns its queries as the first layer left them.
func (w *mixed) rotatedQueries(n int) (got []float32) {
	w.t.Helper()
	c := &w.pool.cfg.Model
	row := func(width int) buffer {
		x := make([]float32, n*width)
		for i := range x {
			x[i] = float32(i%5) + 1
		}
		return w.vector(w.s, x)
	}
	q, k, v := row(c.QHeads*c.HeadDim), row(c.KVHeads*c.HeadDim), row(c.KVHeads*c.VHeadDim)
	out := w.vector(w.s, make([]float32, n*c.QHeads*c.VHeadDim))
	require.NoError(w.t, w.step.Plan(w.s))
	for l := range c.Layers {
		io := Dense(q, k, v, out)
		io.Rotate = l == 0
		require.NoError(w.t, w.step.Append(l, io))
		if l == 0 {
			got = w.download(q)
		}
	}
	require.NoError(w.t, w.step.Commit())
	w.free(q, k, v, out)
	return got
}
