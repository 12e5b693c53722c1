package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// moved is what one launch moves: bytes of a block, or of a head of a slot.
type moved struct {
	op   Op
	k, v int64
}

// Scales and attention scores go along, what is not made of 16 bytes in narrow pieces. What
// a head shares stays. Blocks have 2 heads of 16 slots here.
func TestWhatMoves(t *testing.T) {
	const blocks, narrowBlocks, slots, narrowSlots = OpCopyBlocks, OpCopyBlocksNarrow, OpMoveSlots, OpMoveSlotsNarrow
	for _, c := range []struct {
		k, v          backend.DType
		dim           int
		mass          bool
		blocks, slots []moved
	}{
		{backend.F16, backend.F16, 64, false, []moved{{blocks, 4096, 4096}}, []moved{{slots, 128, 128}}},
		{backend.F32, backend.F32, 64, true, []moved{{blocks, 8192, 8192}, {blocks, 128, 0}}, []moved{{slots, 256, 256}, {narrowSlots, 4, 0}}},
		{backend.Int8, backend.Int8, 80, true, []moved{{blocks, 2560, 2560}, {blocks, 128, 128}, {blocks, 128, 0}},
			[]moved{{slots, 80, 80}, {narrowSlots, 4, 4}, {narrowSlots, 4, 0}}},
		{backend.Int8, backend.Int4, 80, false, []moved{{blocks, 2560, 1280}, {blocks, 128, 384}}, []moved{{narrowSlots, 80, 40}, {narrowSlots, 4, 12}}},
		{backend.Int4G64, backend.Int4G64, 128, false, []moved{{blocks, 2048, 2048}, {blocks, 256, 256}}, []moved{{slots, 64, 64}, {narrowSlots, 8, 8}}},
		{backend.FP8E4M3, backend.Int4, 64, false, []moved{{blocks, 2048, 1024}, {blocks, 256, 0}}, []moved{{slots, 64, 32}, {narrowSlots, 8, 0}}},
		{backend.FP8E5M2, backend.FP8E5M2, 64, false, []moved{{blocks, 2048, 2048}}, []moved{{slots, 64, 64}}},
	} {
		s, calls := &step{}, newCalls()
		cache := s.cache(c.k, c.v, c.dim)
		pairs, mass := s.buffer(backend.U32), backend.Opt[*buffer]{}
		if c.mass {
			mass = s.some(backend.F32)
		}
		list := func(err error) (did []moved) {
			require.NoError(t, err)
			for i := range calls.List() {
				call := &calls.List()[i]
				require.NotContains(t, call.Buffers(), Place{}, "memory behind every argument")
				if op := call.Kernel.Op; op == blocks || op == narrowBlocks {
					require.Equal(t, pairs.at, call.Buffers()[abi.CopyBlocksPairs])
					args := argsOf[abi.CopyBlocksArgs](call)
					did = append(did, moved{op, args.KBytes, args.VBytes})
				} else {
					require.Equal(t, pairs.at, call.Buffers()[abi.MoveSlotsPairs])
					args := argsOf[abi.MoveSlotsArgs](call)
					did = append(did, moved{op, int64(args.KBytes), int64(args.VBytes)})
				}
			}
			return did
		}
		require.Equal(t, c.blocks, list(CopyBlocks(calls, &backend.CopyBlocksParams[*buffer]{From: cache, To: cache, FromScores: mass, ToScores: mass, Pairs: pairs, N: 3})), "%s %s", c.k, c.v)
		require.Equal(t, c.slots, list(MoveSlots(calls, &backend.MoveSlotsParams[*buffer]{Cache: cache, Scores: mass, Pairs: pairs, N: 3})), "%s %s", c.k, c.v)
	}
}

// Blocks of few bytes move in narrow pieces, and so does memory that is not aligned to 16.
// The scales of Int4Channel are a block's.
func TestNarrowBlocks(t *testing.T) {
	s, c := &step{}, newCalls()
	cache := s.cache(backend.Int4Channel, backend.Int4, 80)
	cache.KVHeads, cache.BlockSize = 1, 1
	p := backend.CopyBlocksParams[*buffer]{From: cache, To: cache, Pairs: s.buffer(backend.U32), N: 1}
	require.NoError(t, CopyBlocks(c, &p))
	require.Len(t, c.List(), 2)
	for i, want := range [][2]int64{{40, 40}, {320, 12}} {
		call := &c.List()[i]
		require.Equal(t, OpCopyBlocksNarrow, call.Kernel.Op)
		args := argsOf[abi.CopyBlocksArgs](call)
		require.Equal(t, want, [2]int64{args.KBytes, args.VBytes})
	}

	p.From, p.To = s.cache(backend.Int8, backend.Int8, 64), s.cache(backend.Int8, backend.Int8, 64)
	p.To.V.Scales.Buf.at.At = 4
	require.NoError(t, CopyBlocks(c, &p))
	require.Equal(t, OpCopyBlocks, c.List()[0].Kernel.Op)
	require.Equal(t, OpCopyBlocksNarrow, c.List()[1].Kernel.Op)
}

// A grid has a block for every 1024 pieces, however wide they are.
func TestBlockGrids(t *testing.T) {
	s, c := &step{}, newCalls()
	p := backend.CopyBlocksParams[*buffer]{From: s.cache(backend.F32, backend.F32, 128), Pairs: s.buffer(backend.U32), N: 3}
	p.From.BlockSize = 64 // 64 KiB a block
	p.To = p.From
	require.NoError(t, CopyBlocks(c, &p))
	require.Equal(t, [3]uint32{4, 3, 1}, c.List()[0].Grid)
	p.From = s.cache(backend.Int4, backend.Int4, 80)
	p.From.KVHeads, p.From.BlockSize = 1, 207 // 8280 bytes a block
	p.To = p.From
	require.NoError(t, CopyBlocks(c, &p))
	require.Equal(t, [3]uint32{3, 3, 1}, c.List()[0].Grid)
}
