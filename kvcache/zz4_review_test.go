package kvcache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func (w *mixed) zzRotated(n int) []float32 {
	c := &w.pool.cfg.Model
	ones := func(k int) []float32 {
		x := make([]float32, k)
		for i := range x {
			x[i] = float32(i%5) + 1
		}
		return x
	}
	q, k, v := w.vector(w.s, ones(n*c.QHeads*c.HeadDim)), w.vector(w.s, ones(n*c.KVHeads*c.HeadDim)), w.vector(w.s, ones(n*c.KVHeads*c.VHeadDim))
	out := w.vector(w.s, make([]float32, n*c.QHeads*c.VHeadDim))
	require.NoError(w.t, w.step.Plan(w.s))
	var got []float32
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

func TestZZRotated(t *testing.T) {
	w := newMixed(t, small(Paged))
	a, b := w.fresh(), w.fresh()
	require.NoError(t, w.step.Add(a.seq, sequence(1, 10)))
	w.zzRotated(10)
	require.NoError(t, a.seq.Retain(w.s, [][]int{{0, 1, 2, 5, 6, 7, 8, 9}}, RetainOptions{}))
	require.Equal(t, 10, a.seq.NextPosition())
	require.NoError(t, w.step.Add(b.seq, sequence(1, 9)))
	w.zzRotated(9)
	require.NoError(t, w.step.Add(b.seq, sequence(1, 1)))
	want := w.zzRotated(1) // position 9
	require.NoError(t, w.step.Query(a.seq, []View{{7, 8}}))
	require.Equal(t, want, w.zzRotated(1))
	// a tree behind it: first node at position 10
	require.NoError(t, w.step.Add(b.seq, sequence(1, 1)))
	want = w.zzRotated(1) // position 10
	require.NoError(t, w.step.AddTree(a.seq, []uint32{5}, []int{-1}))
	c := &w.pool.cfg.Model
	_ = c
	require.NoError(t, w.step.Plan(w.s))
	require.Equal(t, []uint32{10}, w.step.step.Steps[0].Index.Positions.Host)
	require.NoError(t, w.step.Reset())
	// again in one step, and a query of another
	require.NoError(t, w.step.Add(a.seq, []uint32{1, 2}))
	require.NoError(t, w.step.Query(b.seq, []View{{3, 4}}))
	require.NoError(t, w.step.AddTree(a.seq, []uint32{5, 6, 7}, []int{-1, 0, 0}))
	require.NoError(t, w.step.Plan(w.s))
	require.Equal(t, []uint32{10, 11, 3, 12, 13, 13}, w.step.step.Steps[0].Index.Positions.Host)
	require.NoError(t, w.step.Reset())
}
