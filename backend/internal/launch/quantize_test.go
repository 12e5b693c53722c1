package launch

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Types that a word describes are those that no kernel has in its name.
func TestStored(t *testing.T) {
	for dt := range backend.StorageTypes {
		require.Equal(t, dt.Quantized(), stored(dt) == Quant, "%s", dt)
	}
	require.Zero(t, Quant.Bits(), "no buffer is of it")
}

// Either both planes are quantized, by kernels that look the types up, or both are of
// the type in the kernel's name.
func TestFormats(t *testing.T) {
	seen := map[backend.Format]bool{}
	for _, f := range Formats {
		require.False(t, seen[f], "%v is listed twice", f)
		seen[f] = true
		require.Equal(t, f.K.Quantized(), f.V.Quantized(), "%v", f)
		require.True(t, f.K.Quantized() || f.K == f.V, "%v", f)
		require.NotEqual(t, backend.Int4Channel, f.V)
	}
	pairs := 3 // of types with values of other types, chosen by hand
	for dt := range backend.StorageTypes {
		if dt.Quantized() {
			pairs++
		}
	}
	require.Len(t, seen, 5+3*pairs)
}

// slotwise are the formats of quantized types whose slots are written one by one.
var slotwise = slices.DeleteFunc(slices.Clone(Formats), func(f backend.Format) bool {
	return !f.K.Quantized() || f.K.Coding().Scope == backend.ByChannel
})

// Queries are turned where a rotation or Hadamard is, and not touched else.
func TestAppendQuantCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(slotwise).Draw(rt, "format")
		s, c := newStep(rt, f), newCalls()
		p := s.append
		p.Cache.K.Hadamard, p.Saturate = rapid.Bool().Draw(rt, "hadamard"), rapid.Bool().Draw(rt, "saturate")
		offset := rapid.SampledFrom([]int{0, 3, 4, 8}).Draw(rt, "offset")
		p.K.Offset, p.V.Stride = offset, 200
		want := abi.AppendQuantArgs{Tokens: 3, KVHeads: 2, KDim: 64, VDim: 64, BlockSize: 16, Slots: 128, KStride: 128, VStride: 200,
			KStorage: abi.Storage(f.K), VStorage: abi.Storage(f.V)}
		constants, grid := constant(abi.Wide, int64(offset)*elementSize(f.Act)%16 == 0), [3]uint32{3, 1, 1}
		if p.Cache.K.Hadamard {
			want.Flags |= abi.Hadamard
		}
		if p.Saturate {
			want.Flags |= abi.Saturate
		}
		if rapid.Bool().Draw(rt, "rope") {
			p.Rotary, p.Positions = s.rope(32), s.some(backend.U32)
			p.Rotary.Pairing = backend.Interleaved
			want.Flags |= abi.RoPE | abi.Interleaved
			want.RoPEDims, want.RoPEPositions, want.Magnitude = 32, 100, 1
			constants |= bitsOf(abi.WithRoPE)
		}
		if rapid.Bool().Draw(rt, "queries") {
			p.QHeads, p.Q = 6, backend.Dense(s.buffer(f.Act))
			if p.Rotary.Table.Set || p.Cache.K.Hadamard {
				want.QHeads, want.QStride = 6, 384
				constants |= bitsOf(abi.WithQueries)
				grid[1] = 2
			}
		}
		require.NoError(rt, Append(c, &p))
		require.Len(rt, c.List(), 1)
		call := &c.List()[0]
		want.Encode()
		require.Equal(rt, want, argsOf[abi.AppendQuantArgs](call))
		require.Equal(rt, Kernel{Op: OpAppendQuant, In: f.Act}, call.Kernel)
		require.Equal(rt, constants, call.Constants)
		require.Equal(rt, grid, call.Grid)
		buffers := call.Buffers()
		require.Equal(rt, p.K.Buf.at.Plus(int64(offset)*elementSize(f.Act)), buffers[abi.AppendQuantK])
		require.Equal(rt, p.Cache.K.Scales.Buf.at, buffers[abi.AppendQuantKscales])
		require.Equal(rt, p.Cache.V.Scales.Buf.at, buffers[abi.AppendQuantVscales])
		require.Equal(rt, statusPlace, buffers[abi.AppendQuantStatus])
		require.Equal(rt, want.QHeads > 0, buffers[abi.AppendQuantQ] != Place{})
	})
}

// Only what quantizes has a place to report to, and without one it launches nothing.
func TestStatus(t *testing.T) {
	f := backend.Format{Act: backend.F16, K: backend.Int8, V: backend.Int4}
	s, refused := newStep(t, f), errors.New("no memory")
	c := &Calls{Status: func() (Place, error) { return Place{}, refused }}
	for name, do := range s.operations(c) {
		err := do()
		if name == "append" || name == "convert" {
			require.ErrorIs(t, err, refused, name)
			require.Empty(t, c.List(), name)
			continue
		}
		require.NoError(t, err, name)
		require.NotEmpty(t, c.List(), name)
	}
	s.convert.From, s.convert.To = s.convert.To, s.convert.From
	require.NoError(t, ConvertBlocks(c, &s.convert), "values of blocks that are unpacked are finite")
}

func TestRotateQuantCalls(t *testing.T) {
	s, c := newStep(t, backend.Format{Act: backend.BF16, K: backend.Int4G64, V: backend.Int4G64}), newCalls()
	s.rotate.Cache.K.Hadamard = true
	require.NoError(t, Rotate(c, &s.rotate))
	require.Len(t, c.List(), 1)
	call := &c.List()[0]
	want := abi.RotateQuantArgs{Flags: abi.Hadamard, Slots: 128, N: 2, KVHeads: 2, KDim: 64, BlockSize: 16, RoPEDims: 64, RoPEPositions: 100, Storage: abi.Storage(backend.Int4G64)}
	want.Encode()
	require.Equal(t, want, argsOf[abi.RotateQuantArgs](call))
	require.Equal(t, "fkv_rotate_quant", call.Kernel.Symbol())
	require.Equal(t, s.rotate.Cache.K.Scales.Buf.at, call.Buffers()[abi.RotateQuantScales])
	require.Equal(t, [3]uint32{2, 1, 1}, call.Grid)
}

// Keys of floats that are stored turned go the way of quantized ones, but for bits that are gathered
// as they are. They have no scales: other memory stands for them.
func TestTurnedFloats(t *testing.T) {
	s, c := newStep(t, backend.Format{Act: backend.F32, K: backend.BF16, V: backend.BF16}), newCalls()
	s.append.Cache.K.Hadamard, s.rotate.Cache.K.Hadamard, s.gather.Cache.K.Hadamard = true, true, true
	s.append.QHeads, s.append.Q = 4, backend.Dense(s.buffer(backend.F32))
	keys, values := s.append.Cache.K.Data.at, s.append.Cache.V.Data.at
	only := func(err error) *Call {
		require.NoError(t, err)
		require.Len(t, c.List(), 1)
		return &c.List()[0]
	}
	call := only(Append(c, &s.append))
	require.Equal(t, "fkv_append_quant_f32", call.Kernel.Symbol())
	appended := argsOf[abi.AppendQuantArgs](call)
	require.Equal(t, [4]uint32{abi.Hadamard, 4, abi.Storage(backend.BF16), abi.Storage(backend.BF16)},
		[4]uint32{appended.Flags &^ abi.RoPE, appended.QHeads, appended.KStorage, appended.VStorage})
	require.Equal(t, []Place{keys, values, keys, values}, call.Buffers()[abi.AppendQuantKCache:abi.AppendQuantStatus])

	call = only(Rotate(c, &s.rotate))
	require.Equal(t, "fkv_rotate_quant", call.Kernel.Symbol())
	rotated := argsOf[abi.RotateQuantArgs](call)
	require.Equal(t, [2]uint32{abi.Hadamard, abi.Storage(backend.BF16)}, [2]uint32{rotated.Flags, rotated.Storage})
	require.Equal(t, s.rotate.Cache.K.Data.at, call.Buffers()[abi.RotateQuantScales])

	s.gather.V.Set = false
	require.Equal(t, "fkv_gather_bf16_bf16", only(Gather(c, &s.gather)).Kernel.Symbol())
	s.gather.K = s.some(backend.F32)
	call = only(Gather(c, &s.gather))
	require.Equal(t, "fkv_gather_quant", call.Kernel.Symbol())
	gathered := argsOf[abi.GatherQuantArgs](call)
	require.Equal(t, [2]uint32{abi.Hadamard, abi.Storage(backend.BF16)}, [2]uint32{gathered.Flags, gathered.Storage})
	require.Equal(t, s.gather.Cache.K.Data.at, call.Buffers()[abi.GatherQuantScales])
	s.gather.Cache.K.Data.dt = backend.F32
	require.Equal(t, "fkv_gather_quant", only(Gather(c, &s.gather)).Kernel.Symbol(), "what is f32, too")
}

// Keys that are stored turned are turned back; values are not.
func TestGatherQuantCalls(t *testing.T) {
	s, c := newStep(t, backend.Format{Act: backend.F32, K: backend.Int4Channel, V: backend.Int8}), newCalls()
	s.gather.Cache.K.Hadamard = true
	require.NoError(t, Gather(c, &s.gather))
	require.Len(t, c.List(), 2)
	for i, want := range []abi.GatherQuantArgs{{Storage: abi.Storage(backend.Int4Channel), Flags: abi.Hadamard}, {Storage: abi.Storage(backend.Int8)}} {
		call := &c.List()[i]
		want.Len, want.Blocks, want.KVHeads, want.BlockSize, want.Dim, want.Row = 33, 8, 2, 16, 64, 64
		want.Encode()
		require.Equal(t, want, argsOf[abi.GatherQuantArgs](call))
		require.Equal(t, Kernel{Op: OpGatherQuant}, call.Kernel)
		require.Equal(t, bitsOf(abi.WithTable, abi.Wide), call.Constants)
		require.Equal(t, s.gather.Table.Buf.at.Plus(20), call.Buffers()[abi.GatherQuantTable])
	}
	require.Equal(t, s.gather.Cache.V.Scales.Buf.at, c.List()[1].Buffers()[abi.GatherQuantScales])
}

func TestAttendQuantCalls(t *testing.T) {
	f := backend.Format{Act: backend.F16, K: backend.FP8E4M3, V: backend.Int4}
	s, c := newStep(t, f), newCalls()
	require.NoError(t, Attend(c, &s.attend))
	require.Equal(t, "fkv_attend_decode_f16_quant_64_64", c.List()[0].Kernel.Symbol())
	last := &c.List()[len(c.List())-1]
	require.Equal(t, "fkv_attend_mass_f16_quant_64_64", last.Kernel.Symbol())
	for i := range c.List() {
		call := &c.List()[i]
		args := argsOf[abi.AttendArgs](call)
		require.Equal(t, [2]uint32{abi.Storage(backend.FP8E4M3), abi.Storage(backend.Int4)}, [2]uint32{args.KStorage, args.VStorage})
		require.Equal(t, s.attend.Cache.K.Scales.Buf.at, call.Buffers()[abi.AttendKscales])
		require.Equal(t, s.attend.Cache.V.Scales.Buf.at, call.Buffers()[abi.AttendVscales])
	}

	other := s.attend
	other.Plan.Work = newStep(t, backend.Format{Act: backend.F16, K: backend.Int8, V: backend.Int4}).attend.Plan.Work
	require.ErrorContains(t, Attend(c, &other), "plan: was not made for these heads and types")
	for kind := range plan.Kinds {
		f32 := backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int8}
		require.Equal(t, kind < plan.Prefill, plan.Cache{Format: f32}.Has(kind), "as for f32 itself")
		require.Equal(t, kind == plan.Decode || kind == plan.Prefill, plan.Cache{Format: f}.Has(kind), "codes are for matrix units")
	}
}

// A conversion is a launch for each plane, with the scales of the cache that is quantized.
func TestConvertCalls(t *testing.T) {
	s, c := newStep(t, Formats[1]), newCalls()
	p := s.convert
	p.To.Blocks, p.To.K.Hadamard, p.Saturate = 5, true, true
	packed := &p.To
	p.FromScores, p.ToScores = s.some(backend.F32), s.some(backend.F32)
	carried := func(from, to uint32) { // the attention scores, in a launch of its own
		require.Len(t, c.List(), 3)
		call, want := &c.List()[2], abi.CopyBlocksArgs{Pairs: 2, KBytes: 2 * 16 * 4, FromBlocks: from, ToBlocks: to}
		want.Encode()
		require.Equal(t, want, argsOf[abi.CopyBlocksArgs](call))
		require.Equal(t, []Place{p.FromScores.Buf.at, p.FromScores.Buf.at, p.ToScores.Buf.at, p.ToScores.Buf.at, p.Pairs.at}, call.Buffers())
	}
	require.NoError(t, ConvertBlocks(c, &p))
	carried(8, 5)
	for i, want := range []abi.PackBlocksArgs{
		{Storage: abi.Storage(backend.Int8), Flags: abi.Hadamard | abi.Saturate, Of: abi.Keys},
		{Storage: abi.Storage(backend.Int4), Flags: abi.Saturate, Of: abi.Values},
	} {
		call := &c.List()[i]
		want.Pairs, want.FromBlocks, want.ToBlocks, want.KVHeads, want.BlockSize, want.Dim = 2, 8, 5, 2, 16, 64
		want.Encode()
		require.Equal(t, want, argsOf[abi.PackBlocksArgs](call))
		require.Equal(t, "fkv_pack_blocks_bf16", call.Kernel.Symbol())
		require.Equal(t, [3]uint32{2, 4, 1}, call.Grid, "of 2 pairs, and 8 rows each")
		from, to := [2]backend.Plane[*buffer]{p.From.K, p.From.V}[i], [2]backend.Plane[*buffer]{packed.K, packed.V}[i]
		require.Equal(t, []Place{from.Data.at, to.Data.at, to.Scales.Buf.at, p.Pairs.at, statusPlace}, call.Buffers())
	}

	p.From, p.To = p.To, p.From
	packed = &p.From
	require.NoError(t, ConvertBlocks(c, &p))
	carried(5, 8)
	for i, want := range []abi.UnpackBlocksArgs{{Storage: abi.Storage(backend.Int8), Flags: abi.Hadamard}, {Storage: abi.Storage(backend.Int4)}} {
		call := &c.List()[i]
		want.Pairs, want.FromBlocks, want.ToBlocks, want.KVHeads, want.BlockSize, want.Dim = 2, 5, 8, 2, 16, 64
		want.Encode()
		require.Equal(t, want, argsOf[abi.UnpackBlocksArgs](call))
		require.Equal(t, "fkv_unpack_blocks_bf16", call.Kernel.Symbol())
		from, to := [2]backend.Plane[*buffer]{packed.K, packed.V}[i], [2]backend.Plane[*buffer]{p.To.K, p.To.V}[i]
		require.Equal(t, []Place{from.Data.at, from.Scales.Buf.at, to.Data.at, p.Pairs.at}, call.Buffers())
	}
	p.To.K.Hadamard = true
	require.NoError(t, ConvertBlocks(c, &p))
	require.Zero(t, argsOf[abi.UnpackBlocksArgs](&c.List()[0]).Flags, "keys that are turned in both stay so")
	p.To.V.Data.at.At = 8
	require.ErrorContains(t, ConvertBlocks(c, &p), "values: address 0x8")
	require.Empty(t, c.List(), "also not for the keys")
}
