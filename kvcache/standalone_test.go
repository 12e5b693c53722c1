package kvcache

import (
	"cmp"
	"errors"
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/stretchr/testify/require"
)

// oneCache is a stand-alone cache that the test writes ids to.
type oneCache struct {
	t    testT
	be   backend.Backend[buffer]
	s    backend.Stream
	c    *Standalone[buffer]
	k, v int // head sizes
}

// lone is the configuration of a stand-alone cache of 2 heads.
func lone(layout Layout, capacity int) Config {
	c := small(layout)
	c.Model.Layers, c.Memory.MaxSeqs, c.Memory.BlockSize, c.Model.RoPE, c.Memory.Capacity = 0, 0, 0, nil, capacity
	return c
}

func newCache(t testT, cfg Config) *oneCache {
	be := openDevice(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	c, err := NewStandalone(be, cfg)
	require.NoError(t, err)
	return &oneCache{t, be, s, c, cfg.Model.HeadDim, cfg.Model.VHeadDim}
}

func (o *oneCache) vector(host []float32) buffer {
	b, err := backend.AllocFrom(o.be, o.s, backend.F32, host)
	require.NoError(o.t, err)
	return b
}

func (o *oneCache) append(ids []uint32) error {
	hk, hv := newRows(&o.c.solo.seq.pool.cfg.Model, ids, 0)
	k, v := o.vector(hk), o.vector(hv)
	err := o.c.Append(o.s, kv(k, v), len(ids))
	return errors.Join(err, o.be.Free(k), o.be.Free(v))
}

// expect reads the cache through Gather.
func (o *oneCache) expect(ids []uint32) {
	n := len(ids)
	require.Equal(o.t, n, o.c.Len)
	k, v := o.vector(make([]float32, 2*n*o.k)), o.vector(make([]float32, 2*n*o.v))
	require.NoError(o.t, o.c.Gather(o.s, k, v))
	hk, hv := make([]float32, 2*n*o.k), make([]float32, 2*n*o.v)
	require.NoError(o.t, backend.Download(o.be, o.s, hk, k, 0))
	require.NoError(o.t, backend.Download(o.be, o.s, hv, v, 0))
	for h := range 2 {
		for i, id := range ids {
			for d := range o.k {
				require.Equal(o.t, element(id, 0, h, d, false), hk[(h*n+i)*o.k+d])
			}
			for d := range o.v {
				require.Equal(o.t, element(id, 0, h, d, !o.c.Latent), hv[(h*n+i)*o.v+d])
			}
		}
	}
	require.NoError(o.t, errors.Join(o.be.Free(k), o.be.Free(v)))
}

func (o *oneCache) close() {
	require.NoError(o.t, o.c.Release())
	require.ErrorIs(o.t, o.c.Release(), ErrReleased)
	require.Zero(o.t, o.be.Info().Buffers)
	require.NoError(o.t, errors.Join(o.s.Close(), o.be.Close()))
}

func sequence(from, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(from + i)
	}
	return ids
}

// A contiguous cache starts small, doubles as it fills, keeps its content, and
// stops at its capacity.
func TestStandaloneGrows(t *testing.T) {
	o := newCache(t, lone(Contiguous, 1000))
	require.Equal(t, 256, o.c.Capacity)
	require.Zero(t, o.c.BlockSize)
	require.False(t, o.c.BlockTable.Set)
	var all []uint32
	for _, step := range []struct{ n, capacity int }{{255, 256}, {1, 256}, {1, 512}, {300, 1000}, {443, 1000}} {
		ids := sequence(len(all)+1, step.n)
		require.NoError(t, o.append(ids))
		all = append(all, ids...)
		require.Equal(t, step.capacity, o.c.Capacity)
		require.Equal(t, 2*o.k*step.capacity, o.c.K.Len(), "K is [heads, capacity, dim]")
		require.Equal(t, 2*o.v*step.capacity, o.c.V.Len())
		o.expect(all)
	}
	require.ErrorIs(t, o.append([]uint32{1}), ErrCapacity{Have: 1001, Max: 1000})
	o.expect(all)
	o.close()
}

// A contiguous cache that grows takes the scores of its tokens along.
func TestStandaloneGrowsWithScores(t *testing.T) {
	cfg := lone(Contiguous, 1000)
	cfg.Attention.Scores = true
	o := newCache(t, cfg)
	n := firstCapacity - 1
	scores := func() []float32 {
		all := make([]float32, 2*o.c.Len) // [heads, tokens]
		require.NoError(t, o.c.Scores(o.s, all))
		return append(all[:n:n], all[o.c.Len:][:n]...)
	}
	require.NoError(t, o.append(sequence(1, n)))
	q, out := o.vector(make([]float32, 4*o.k)), o.vector(make([]float32, 4*o.v))
	require.NoError(t, o.c.Attend(o.s, attending(q, out), 1))
	want := scores()
	require.Positive(t, want[0])
	require.NoError(t, o.append(sequence(n+1, 2)))
	require.Equal(t, 2*firstCapacity, o.c.Capacity)
	require.Equal(t, want, scores())
	require.NoError(t, errors.Join(o.be.Free(q), o.be.Free(out)))
	o.close()
}

// Growth that finds no memory leaves the cache as it was.
func TestStandaloneGrowthOutOfMemory(t *testing.T) {
	be, err := cpu.Open(cpu.Options{MaxBytes: 300 * 2 * (4 + 6) * 4})
	require.NoError(t, err)
	s, err := be.NewStream()
	require.NoError(t, err)
	c, err := NewStandalone(be, Config{
		Model:   Model{KVHeads: 2, HeadDim: 4, VHeadDim: 6},
		Storage: Storage{K: backend.F32},
		Memory:  Memory{Layout: Contiguous, Capacity: 10000},
	})
	require.NoError(t, err)
	buffers := be.Info().Buffers
	k, err := be.Alloc(backend.F32, 12)
	require.NoError(t, err)
	require.NoError(t, c.Append(s, kv(k, k), 1))
	wide, err := be.Import(backend.HostHandle(make([]float32, 12*256)), backend.F32, 12*256)
	require.NoError(t, err)
	err = c.Append(s, kv(wide, wide), 256)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.Equal(t, 1, c.Len)
	require.Equal(t, 256, c.Capacity)
	require.NoError(t, errors.Join(be.Free(wide), be.Free(k)))
	require.GreaterOrEqual(t, be.Info().Buffers, buffers)
	require.NoError(t, c.Release())
	require.Zero(t, be.Info().Buffers)
	require.NoError(t, be.Close())
}

// The seed's fields say where a paged cache's tokens lie, on host and device alike.
func TestStandalonePagedFields(t *testing.T) {
	o := newCache(t, lone(Paged, 50))
	ids := sequence(1, 40)
	require.NoError(t, o.append(ids))
	require.Equal(t, 16, o.c.BlockSize)
	require.Equal(t, 2, o.c.NumKVHeads)
	require.Equal(t, testDims()[0], o.c.HeadDim)
	require.Equal(t, 50, o.c.Capacity)
	require.Len(t, o.c.PagedBlockIndices, 3)
	table, lens := make([]uint32, 3), make([]uint32, 1)
	require.NoError(t, backend.Download(o.be, o.s, table, o.c.BlockTable.Buf, 0))
	require.NoError(t, backend.Download(o.be, o.s, lens, o.c.ContextLens.Buf, 0))
	require.Equal(t, o.c.PagedBlockIndices, table)
	require.Equal(t, []uint32{40}, lens)
	o.expect(ids)
	require.NoError(t, o.c.Truncate(17))
	require.Len(t, o.c.PagedBlockIndices, 2)
	require.NoError(t, o.append(sequence(100, 3)))
	o.expect(append(sequence(1, 17), sequence(100, 3)...))
	require.NoError(t, o.c.Reset())
	require.Empty(t, o.c.PagedBlockIndices)
	o.expect(nil)
	o.close()
}

// Attend after Append reads the step's plan; after anything else it plans anew.
// Either way the result is that of all tokens so far.
func TestStandaloneAttend(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		o := newCache(t, lone(layout, 300))
		zeros, out := o.vector(make([]float32, 2*4*o.k)), o.vector(make([]float32, 2*4*o.v))
		check := func(ids []uint32, n int) {
			t.Helper()
			require.NoError(t, o.be.Fill(o.s, out, 0, out.Len(), math.NaN()))
			require.NoError(t, o.c.Attend(o.s, attending(zeros, out), n))
			got := make([]float32, n*4*o.v)
			require.NoError(t, backend.Download(o.be, o.s, got, out, 0))
			for i := range n {
				seen := ids[:len(ids)-n+i+1]
				for h := range 4 {
					for d := range o.v {
						mean := 0.0
						for _, id := range seen {
							mean += float64(element(id, 0, h/2, d, true)) / float64(len(seen))
						}
						require.InDelta(t, mean, got[(i*4+h)*o.v+d], 1e-5)
					}
				}
			}
		}
		require.NoError(t, o.append(sequence(1, 21)))
		check(sequence(1, 21), 2)
		require.NoError(t, o.append(sequence(22, 1)))
		check(sequence(1, 22), 1)
		check(sequence(1, 22), 2)
		require.NoError(t, o.c.Truncate(5))
		check(sequence(1, 5), 2)
		require.ErrorIs(t, o.c.Attend(o.s, attending(zeros, out), 6), backend.ErrArgument{})
		require.ErrorIs(t, o.c.Attend(nil, attending(zeros, out), 1), backend.ErrArgument{})
		require.ErrorIs(t, o.c.Append(o.s, kv(zeros, zeros), 0), backend.ErrArgument{})
		check(sequence(1, 5), 1)
		require.NoError(t, errors.Join(o.be.Free(zeros), o.be.Free(out)))
		o.close()
	}
}

// A cache of its own never shows a device table that is not that of its tokens.
func TestRegressionStaleDeviceTable(t *testing.T) {
	cfg := lone(Paged, 50)
	cfg.Model.RoPE = &backend.RoPE{}
	o := newCache(t, cfg)
	require.False(t, o.c.BlockTable.Set || o.c.ContextLens.Set, "nothing was planned yet")
	current := func() {
		t.Helper()
		require.True(t, o.c.BlockTable.Set && o.c.ContextLens.Set)
		lens := make([]uint32, 1)
		require.NoError(t, backend.Download(o.be, o.s, lens, o.c.ContextLens.Buf, 0))
		require.EqualValues(t, o.c.Len, lens[0])
	}
	require.NoError(t, o.append(sequence(1, 40)))
	current()
	require.NoError(t, o.c.Truncate(17))
	require.False(t, o.c.BlockTable.Set || o.c.ContextLens.Set)
	require.NoError(t, o.append(sequence(1, 1)))
	current()
	require.NoError(t, o.c.Shift(o.s, 0, 16))
	require.False(t, o.c.BlockTable.Set || o.c.ContextLens.Set)
	require.NoError(t, o.append(sequence(1, 1)))
	current()
	bad := o.vector(make([]float32, 1))
	require.ErrorIs(t, o.c.Append(o.s, kv(bad, bad), 5), backend.ErrArgument{})
	require.False(t, o.c.BlockTable.Set || o.c.ContextLens.Set, "the failed step has used the vectors")
	require.NoError(t, errors.Join(o.append(sequence(1, 1)), o.be.Free(bad)))
	current()
	o.close()
}

// A warm token of a cache of its own allocates nothing either, typed and erased.
func TestWarmStandaloneAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, layout := range []Layout{Contiguous, Paged} {
		typed, be := openCPU(t), openDevice(t)
		t.Run(layout.String()+"/typed", func(t *testing.T) { warmCache(t, typed, layout) })
		t.Run(layout.String()+"/erased", func(t *testing.T) { warmCache(t, be, layout) })
		require.NoError(t, errors.Join(typed.Close(), be.Close()))
	}
}

func warmCache[B backend.Buffer](t *testing.T, be backend.Backend[B], layout Layout) {
	s, err := be.NewStream()
	require.NoError(t, err)
	dims := testDims()
	c, err := NewStandalone(be, Config{
		Model:   Model{KVHeads: 2, HeadDim: dims[0], VHeadDim: dims[1], RoPE: &backend.RoPE{}},
		Storage: Storage{K: backend.F32},
		Memory:  Memory{Layout: layout, Capacity: 2048},
	})
	require.NoError(t, err)
	var x [4]B
	for i := range x {
		x[i], err = backend.AllocFrom(be, s, backend.F32, make([]float32, 2*max(dims[0], dims[1])))
		require.NoError(t, err)
	}
	token := func() {
		if err := cmp.Or(c.Append(s, rotated(x[0], x[1], x[2]), 1), c.Attend(s, attending(x[0], x[3]), 1)); err != nil {
			t.Fatal(err)
		}
	}
	warm, runs := 1100, 300 // grown to 2048 slots, index vectors at their size
	if emulated(be.Info()) {
		warm, runs = 270, 100 // 512 slots
	}
	for range warm {
		token()
	}
	require.Zero(t, testing.AllocsPerRun(runs, token))
	require.NoError(t, c.Release())
	for _, b := range x {
		require.NoError(t, be.Free(b))
	}
	require.NoError(t, s.Close())
	require.Zero(t, be.Info().Buffers)
}

// A write that is refused leaves a cache that would have grown for it as it was,
// down to its memory.
func TestStandaloneRefusedWriteDoesNotGrow(t *testing.T) {
	o := newCache(t, lone(Contiguous, 1000))
	ids := sequence(1, 200)
	require.NoError(t, o.append(ids))
	k, capacity, live := o.c.K, o.c.Capacity, o.be.Info().Buffers
	half, err := o.be.Alloc(backend.F16, 2*100*(o.k+o.v))
	require.NoError(t, err)
	short := o.vector(make([]float32, 8))
	for _, bad := range []buffer{half, short, {}} {
		require.ErrorIs(t, o.c.Append(o.s, kv(bad, bad), 100), backend.ErrArgument{})
		require.Equal(t, capacity, o.c.Capacity)
		require.Equal(t, k, o.c.K)
		o.expect(ids)
	}
	require.NoError(t, errors.Join(o.be.Free(half), o.be.Free(short)))
	require.LessOrEqual(t, o.be.Info().Buffers, live+2, "the table of Gather")
	require.NoError(t, o.append(sequence(201, 100)))
	o.expect(sequence(1, 300))
	o.close()
}
