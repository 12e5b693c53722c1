package kvcache

import (
	"cmp"
	"math"
	"runtime"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

// What the comments say of things that surprise.

// Blocks are a sequence's own, and not those that an open step has taken for it.
func TestBlocksOfAnOpenStep(t *testing.T) {
	r := deviceRig(t, small(Paged))
	seq := r.open()
	require.NoError(t, r.feed2(seq, sequence(1, 6)))
	had := seq.Blocks(nil)
	require.Len(t, had, 2)
	fork, err := seq.Fork()
	require.NoError(t, err)
	require.NoError(t, r.plan(r.s, feed[buffer]{fork, sequence(7, 5)})) // copies one and takes one more
	require.Equal(t, had, fork.Blocks(nil))
	require.Equal(t, 6, fork.Len())
	index, err := r.step.Metadata(0)
	require.NoError(t, err)
	table := make([]uint32, 3)
	require.NoError(t, backend.Download(r.be, r.s, table, index.Table.Buf, 0))
	require.NoError(t, r.step.Commit())
	require.Equal(t, table, fork.Blocks(nil))
	require.NotEqual(t, had[1], table[1])
	require.NoError(t, cmp.Or(r.step.Reset(), cmp.Or(seq.Release(), fork.Release())))
	r.close()
}

// A sequence that nobody has any more keeps its blocks until the pool is closed.
func TestDroppedSequenceKeepsItsBlocks(t *testing.T) {
	r := deviceRig(t, small(Paged))
	require.NoError(t, r.feed2(r.open(), sequence(1, 6)))
	require.NoError(t, r.s.Sync())
	runtime.GC()
	runtime.GC()
	st := r.stats()
	require.Equal(t, [3]int{1, 2, 2}, [3]int{st.Sequences, st.Held, st.Logical})
	require.NoError(t, r.pool.Check())
	require.NoError(t, r.pool.Close())
	require.Zero(t, r.be.Info().Buffers)
	require.NoError(t, cmp.Or(r.s.Close(), r.be.Close()))
}

// What a float type cannot hold becomes an infinity in it, and attention NaN.
func TestKeysBeyondTheirType(t *testing.T) {
	cfg := small(Paged)
	cfg.Storage.K, cfg.Storage.V, cfg.Model.Act, cfg.Model.Layers, cfg.Model.HeadDim, cfg.Model.VHeadDim = backend.F16, backend.F16, backend.F32, 1, 4, 4
	r := newRig(t, openCPU(t), cfg)
	seq := r.open()
	q, k, v, out := r.operands(1)
	require.NoError(t, backend.Upload(r.be, r.s, k, 0, []float32{1e6}))
	require.NoError(t, backend.Upload(r.be, r.s, q, 0, []float32{1}))
	require.NoError(t, r.plan(r.s, feed[*cpu.Buffer]{seq, []uint32{1}}))
	require.NoError(t, r.step.Append(0, kv(k, v)))
	require.NoError(t, r.step.Attend(0, attending(q, out)))
	require.True(t, math.IsNaN(float64(r.download(out)[0])))
	require.NoError(t, cmp.Or(r.step.Commit(), r.step.Reset()))
	gathered, err := r.be.Alloc(backend.F32, 2*4)
	require.NoError(t, err)
	require.NoError(t, seq.Gather(r.s, 0, gathered, v))
	require.True(t, math.IsInf(float64(r.download(gathered)[0]), 1))
	require.NoError(t, seq.Release())
	r.free(q, k, v, out, gathered)
	r.close()
}
