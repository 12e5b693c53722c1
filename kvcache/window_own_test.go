package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// own attends to one part of a layer with operations of the device, as a runner's own kernels would.
func own(r *rig[buffer], layer int, part backend.Part, view backend.CacheView[buffer], batch backend.Ragged[buffer], contexts, queries []uint32, q, out buffer, at int, lse buffer) {
	r.t.Helper()
	c := r.pool.Config()
	format := c.FormatOf(layer)
	if part == backend.ResidualKeys {
		format.K, format.V = c.Model.Act, c.Model.Act
	}
	plan, err := r.be.PlanAttend(backend.AttendShape{QHeads: c.Model.QHeads, KVHeads: c.Model.KVHeads, KDim: c.Model.HeadDim, VDim: c.Model.VHeadDim, BlockSize: c.Memory.BlockSize,
		Format: format, ContextLens: contexts, QueryLens: queries, Part: part, Residual: c.Storage.Residual})
	require.NoError(r.t, err)
	work, err := backend.AllocFrom(r.be, r.s, backend.U32, plan.Work)
	require.NoError(r.t, err)
	space, err := r.be.Alloc(backend.F32, max(plan.Workspace, 1))
	require.NoError(r.t, err)
	rows := backend.Dense(out)
	rows.Offset = at * batch.Tokens * c.Model.QHeads * c.Model.VHeadDim
	require.NoError(r.t, r.be.Attend(r.s, backend.AttendParams[buffer]{Cache: view, Batch: batch, Q: backend.Dense(q), QHeads: c.Model.QHeads, Scale: c.Model.Scale,
		Mask: backend.Mask[buffer]{Part: part, Residual: c.Storage.Residual}, Plan: plan, Work: backend.Some(work), Workspace: backend.Some(space),
		Out: backend.Outputs[buffer]{Rows: rows, LSE: backend.Some(lse), LSEOffset: at * batch.Tokens * c.Model.QHeads}}))
	require.NoError(r.t, r.s.Sync())
	r.free(work, space)
}

// A runner writes and attends by itself where tokens lie in two caches: with what Index and Layer say it gets
// what Append and Attend give, in steps of all sizes, and what it does not seal Commit does.
func TestWindowOwnKernels(t *testing.T) {
	for _, seals := range []bool{true, false} {
		r := windowRig(t, openDevice(t), nil)
		c := r.pool.Config()
		a, b := r.open(), r.open() // the pool's, the runner's
		have := 0
		for _, n := range []int{30, 1, 21, 4} {
			ids := sequence(100+have, n)
			q, out := r.vector(r.s, rows(sequence(5000, n), 0, c.Model.QHeads, c.Model.HeadDim, false)), r.vector(r.s, make([]float32, n*c.Model.QHeads*c.Model.VHeadDim))
			require.NoError(t, r.plan(r.s, feed[buffer]{a, ids}))
			r.writeWith(r.s, nil, feed[buffer]{a, ids})
			want := make([][]float32, c.Model.Layers)
			for l := range want {
				require.NoError(t, r.step.Attend(l, attending(q, out)))
				want[l] = r.download(out)
			}
			require.NoError(t, r.step.Commit())

			require.NoError(t, r.plan(r.s, feed[buffer]{b, ids}))
			ix, err := r.step.Metadata(0)
			require.NoError(t, err)
			halves, err := r.be.Alloc(c.Model.Act, 2*n*c.Model.QHeads*c.Model.VHeadDim)
			require.NoError(t, err)
			lse, err := r.be.Alloc(backend.F32, 2*n*c.Model.QHeads)
			require.NoError(t, err)
			for l := range c.Model.Layers {
				view, recent, err := r.pool.Layer(l)
				require.NoError(t, err)
				k, v := r.vector(r.s, rows(ids, l, c.Model.KVHeads, c.Model.HeadDim, false)), r.vector(r.s, rows(ids, l, c.Model.KVHeads, c.Model.VHeadDim, true))
				require.NoError(t, r.be.Append(r.s, backend.AppendParams[buffer]{Cache: recent, Tokens: n, Slots: ix.Slots, K: backend.Dense(k), V: backend.Dense(v)}))
				if seals {
					require.NoError(t, r.step.QuantizeResidual(l))
					lens, news := []uint32{uint32(have + n)}, []uint32{uint32(n)}
					own(r, l, backend.ResidualKeys, recent, ix.Residual, lens, news, q, halves, 0, lse)
					own(r, l, backend.OlderKeys, view, ix.Ragged, lens, news, q, halves, 1, lse)
					require.NoError(t, r.be.Merge(r.s, backend.MergeParams[buffer]{Parts: 2, Tokens: n, Heads: c.Model.QHeads, Dim: c.Model.VHeadDim,
						In: halves, LSE: lse, Out: backend.Dense(out)}))
					require.InDeltaSlice(t, want[l], r.download(out), 1e-5)
				}
				r.free(k, v)
			}
			require.NoError(t, r.step.Commit())
			r.free(q, out, halves, lse)
			have += n
			for l := range c.Model.Layers {
				require.Equal(t, r.quantized(r.s, a, l), r.quantized(r.s, b, l))
				require.Equal(t, r.recent(r.s, a, l), r.recent(r.s, b, l))
			}
		}
		layers, err := b.Layers(r.s)
		require.NoError(t, err)
		for _, l := range layers {
			require.Equal(t, b.Blocks(nil), l.PagedBlockIndices)
			require.Equal(t, c.BlocksOf(have), len(l.Residual.PagedBlockIndices))
			table := make([]uint32, len(l.Residual.PagedBlockIndices))
			require.NoError(t, backend.Download(r.be, r.s, table, l.Residual.BlockTable.Buf, 0))
			require.Equal(t, l.Residual.PagedBlockIndices, table)
			require.Equal(t, have, l.Residual.Len)
			require.Zero(t, table[0])
			require.NotEqual(t, l.K, l.Residual.K)
		}
		require.NoError(t, r.step.Reset())
		require.NoError(t, a.Release())
		require.NoError(t, b.Release())
		r.close()
	}
}
