package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// latentCaps lists latent caches of 8 elements, 6 of them values.
var latentCaps = backend.Caps{Formats: []backend.Format{f16, {Act: backend.F16, K: backend.Int4, V: backend.Int4}},
	HeadDims: [][2]int{{6, 6}}, Latent: true, LatentDims: [][2]int{{8, 6}, {8, 5}, {8, 8}, {8, 9}}, BlockSizes: []int{4}}

// latentView has no values, as a nil buffer says.
func latentView() backend.CacheView[*none] {
	return backend.CacheView[*none]{Blocks: 5, KVHeads: 2, BlockSize: 4, Latent: true,
		K: backend.Plane[*none]{Data: &none{backend.F16, 5 * 2 * 4 * 8}, Dim: 8}, V: backend.Plane[*none]{Dim: 6}}
}

// none is a fake whose nil pointer is no buffer.
type none struct {
	dt backend.DType
	n  int
}

func (f *none) Len() int {
	if f == nil {
		return 0
	}
	return f.n
}

func (f *none) DType() backend.DType {
	if f == nil {
		return backend.Invalid
	}
	return f.dt
}

func (f *none) Bytes() int64 { return 0 }

func latentAppend() backend.AppendParams[*none] {
	return backend.AppendParams[*none]{Cache: latentView(), Tokens: 3,
		K:         backend.Dense(&none{backend.F16, 3 * 2 * 2}), // the rest
		V:         backend.Dense(&none{backend.F16, 3 * 2 * 6}), // the latent
		Slots:     &none{backend.I64, 3},
		Rotary:    backend.RotaryTable[*none]{Table: backend.Some(&none{backend.F32, 7 * 2}), Positions: 7, Dims: 2, Magnitude: 1},
		Positions: backend.Some(&none{backend.U32, 3}), QHeads: 4, Q: backend.Dense(&none{backend.F16, 3 * 4 * 8})}
}

// What is wrong with a latent cache, in a call that needs exactly what it has.
func TestLatentAppend(t *testing.T) {
	p := latentAppend()
	require.NoError(t, Append(&latentCaps, &p))
	unsupported, argument := backend.ErrUnsupported{}, backend.ErrArgument{}
	for name, c := range map[string]struct {
		change func(*backend.AppendParams[*none])
		want   error
	}{
		"short rest":              {func(p *backend.AppendParams[*none]) { p.K.Buf.n-- }, argument},
		"short latent":            {func(p *backend.AppendParams[*none]) { p.V.Buf.n-- }, argument},
		"short queries":           {func(p *backend.AppendParams[*none]) { p.Q.Buf.n-- }, argument},
		"short keys":              {func(p *backend.AppendParams[*none]) { p.Cache.K.Data.n-- }, argument},
		"rotation of the latent":  {func(p *backend.AppendParams[*none]) { p.Rotary.Dims = 4 }, argument},
		"values wider than keys":  {func(p *backend.AppendParams[*none]) { p.Cache.V.Dim = 9 }, argument},
		"no values":               {func(p *backend.AppendParams[*none]) { p.Cache.V.Dim = 0 }, argument},
		"turned keys":             {func(p *backend.AppendParams[*none]) { p.Cache.K.Hadamard = true }, unsupported},
		"turned values":           {func(p *backend.AppendParams[*none]) { p.Cache.V.Hadamard = true }, argument},
		"dims that are not there": {func(p *backend.AppendParams[*none]) { p.Cache.V.Dim = 4 }, unsupported},
	} {
		p := latentAppend()
		c.change(&p)
		require.ErrorIs(t, Append(&latentCaps, &p), c.want, name)
	}
	without := latentCaps
	without.Latent = false
	require.ErrorIs(t, Append(&without, &p), unsupported)
	require.ErrorContains(t, Append(&without, &p), "latent")
}

// A key may have nothing behind its latent.
func TestLatentWithoutRest(t *testing.T) {
	p := latentAppend()
	p.Cache.V.Dim, p.V.Buf.n, p.K.Buf.n = 8, 3*2*8, 0
	p.Rotary, p.Positions = backend.RotaryTable[*none]{}, backend.Opt[*none]{}
	require.NoError(t, Append(&latentCaps, &p))
}

// Values of 4 bits are whole bytes of the keys.
func TestLatentOfHalfABytes(t *testing.T) {
	p := backend.GatherParams[*none]{Cache: latentView(), Len: 1}
	p.Cache.K.Data.dt, p.Cache.K.Scales = backend.Int4, backend.Some(&none{backend.U32, 5 * 2 * 4})
	require.NoError(t, Gather(&latentCaps, &p))
	p.Cache.V.Dim = 5
	require.ErrorIs(t, Gather(&latentCaps, &p), backend.ErrArgument{})
}

func TestLatentGather(t *testing.T) {
	p := backend.GatherParams[*none]{Cache: latentView(), Len: 4, K: backend.Some(&none{backend.F16, 2 * 4 * 8}), V: backend.Some(&none{backend.F16, 2 * 4 * 6})}
	require.NoError(t, Gather(&latentCaps, &p))
	p.V.Buf.n--
	require.ErrorIs(t, Gather(&latentCaps, &p), backend.ErrArgument{})
}

// A latent cache and another one have no blocks in common.
func TestLatentBlocks(t *testing.T) {
	both := backend.Caps{Formats: []backend.Format{f16}, Latent: true}
	p := backend.CopyBlocksParams[*none]{From: latentView(), To: latentView(), Pairs: &none{backend.U32, 2}, N: 1}
	require.NoError(t, CopyBlocks(&both, &p))
	p.To.Latent, p.To.V.Data = false, &none{backend.F16, 5 * 2 * 4 * 6}
	require.ErrorIs(t, CopyBlocks(&both, &p), backend.ErrArgument{})
}

func TestLatentPlan(t *testing.T) {
	s := backend.AttendShape{QHeads: 4, KVHeads: 2, KDim: 8, VDim: 6, BlockSize: 4, Format: f16, Latent: true}
	require.NoError(t, Plan(latentCaps, s))
	mixed := s
	mixed.Format.V = backend.F32
	require.Error(t, Plan(backend.Caps{Formats: []backend.Format{mixed.Format}, Latent: true}, mixed))
	s.KDim = 7
	require.ErrorIs(t, Plan(latentCaps, s), backend.ErrUnsupported{})
	require.ErrorIs(t, Plan(caps, s), backend.ErrUnsupported{})
}

// What stands where a cache has its values is not looked at: it may be anything, also what a call writes.
func TestLatentAttendDoesNotLookAtValues(t *testing.T) {
	out := &none{backend.F16, 3 * 4 * 6}
	p := backend.AttendParams[*none]{Cache: latentView(), QHeads: 4, Scale: 1, Q: backend.Dense(&none{backend.F16, 3 * 4 * 8}),
		Batch: backend.Ragged[*none]{Seqs: 3, Tokens: 3, ContextLens: &none{backend.U32, 3}},
		Out:   backend.Outputs[*none]{Rows: backend.Dense(out)}, Plan: backend.AttendPlan{Items: 1}}
	require.NoError(t, Attend(&latentCaps, &p))
	p.Cache.V.Data = out
	require.NoError(t, Attend(&latentCaps, &p))
	p.Cache.K.Data = out
	require.ErrorIs(t, Attend(&latentCaps, &p), backend.ErrArgument{})
}
