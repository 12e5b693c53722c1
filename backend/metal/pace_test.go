//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// m1 is the smallest device.
var m1 = newPace(mtl.Info{Cores: 8})

// planned is the work of one sequence, 32 query heads over 8 of 128, and the arguments of the launch that
// has all of its items, which are of one kind.
func planned(t testing.TB, queries, keys uint32) (launch.Kernel, *abi.AttendArgs, []uint32) {
	f16 := backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}
	p, err := plan.Attend(backend.AttendShape{QHeads: 32, KVHeads: 8, KDim: 128, VDim: 128, BlockSize: 16, Format: f16,
		ContextLens: []uint32{keys}, QueryLens: []uint32{queries}}, plan.Capacity{m1.groups, m1.groups, m1.groups}.Resident)
	require.NoError(t, err)
	kind, items := plan.Prefill, uint32(0)
	if queries == 1 {
		kind = plan.Decode
	}
	var w plan.Work
	err = w.Read(p.Work, &plan.Call{QHeads: 32, KVHeads: 8, KDim: 128, VDim: 128, Cache: plan.Cache{Format: f16}, Seqs: 1, Tokens: int(queries), See: plan.Visible(&backend.Mask[backend.AnyBuffer]{}, 16)})
	require.NoError(t, err)
	items = w.Kinds[kind].Count
	require.Equal(t, w.All.Count, items)
	return launch.Attention(kind, f16, 128, 128), &abi.AttendArgs{Items: items, KVHeads: 8, KDim: 128, VDim: 128}, p.Work
}

// What the pieces of a launch have, and the time of all.
func taken(p pieces) (list []plan.List, times []float64, all float64) {
	for len(p.words) > 0 {
		piece, seconds := p.take()
		list, times, all = append(list, piece), append(times, seconds), all+seconds
	}
	return list, times, all
}

// A long prompt is many command buffers, each of every item once and in order, and a step of decode a
// part of one.
func TestPieces(t *testing.T) {
	k, args, work := planned(t, 2048, 32768)
	list, times, all := taken(m1.pieces(k, args, work))
	require.InDelta(t, 2.2, all, 0.1, "1.1 TFLOP at 0.64 a second, and each item reads its keys, 15 GB at 32")
	require.GreaterOrEqual(t, len(list), 30)
	least, next := uint32(m1.groups/8), uint32(0)
	for i, piece := range list {
		require.Equal(t, next, piece.First)
		next += piece.Count
		require.True(t, times[i] <= m1.most || piece.Count == least, "piece %d: %v s", i, times[i])
		require.True(t, piece.Count >= least || next == args.Items, "piece %d fills the device", i)
	}
	require.Equal(t, args.Items, next)

	many := newPace(mtl.Info{Cores: 80})
	fewer, _, faster := taken(many.pieces(k, args, work))
	require.InDelta(t, all/10, faster, 1e-6)
	require.Less(t, len(fewer), len(list))

	k, args, work = planned(t, 1, 4096)
	list, _, all = taken(m1.pieces(k, args, work))
	require.Len(t, list, 1)
	require.InDelta(t, 0.0006, all, 0.0002, "17 MB at 32 GB/s, and a matrix of 8 rows")
}

// Numbers that no plan has are estimated as something, and do not end the cutting.
func TestPiecesOfNonsense(t *testing.T) {
	work := make([]uint32, abi.WorkHeader+3*abi.ItemWords)
	for i := range work {
		work[i] = 0xffffffff
	}
	args := &abi.AttendArgs{Items: 3, KVHeads: 8, KDim: 128, VDim: 128}
	item := abi.WorkHeader + abi.ItemWords
	work[item+3] = 0 // every key
	for _, op := range []launch.Op{launch.OpAttendPrefill, launch.OpAttendMerge, launch.OpAttendMass} {
		paced := m1
		paced.groups = 1
		list, _, all := taken(paced.pieces(launch.Kernel{Op: op, In: backend.F16, Out: backend.F16}, args, work))
		require.Greater(t, all, 1.0)
		require.NotEmpty(t, list)
	}
}

// The estimate costs next to nothing, and allocates nothing.
func TestEstimateAllocatesNothing(t *testing.T) {
	k, args, work := planned(t, 2048, 32768)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for left := m1.pieces(k, args, work); len(left.words) > 0; {
			left.take()
		}
	}))
}

func BenchmarkEstimate(b *testing.B) {
	k, args, work := planned(b, 2048, 32768)
	for b.Loop() {
		for left := m1.pieces(k, args, work); len(left.words) > 0; {
			left.take()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(args.Items), "ns/item")
}

// Whatever moves data counts.
func TestEstimates(t *testing.T) {
	be := open(t)
	be.pace.most = 0 // each launch is a command buffer
	w := newWorld(t, be)
	own := w.s.(*stream)
	const n = 1 << 12
	a, b := newBuffer(t, be, n, 1), newBuffer(t, be, n, 2)
	require.NoError(t, be.Fill(own, a, 0, n, 1))
	require.InEpsilon(t, 4*n*be.pace.memory, own.open, 1e-9)
	require.NoError(t, be.Copy(own, a, 0, b, 0, n))
	require.InEpsilon(t, 2*4*n*be.pace.memory, own.open, 1e-9)
	cache, other := w.cache(4, 16), w.cache(4, 16)
	codes := w.packed(cache)
	elements, pairs := float64(16*dim), place[uint32](w, backend.U32, 0, 1)
	for name, c := range map[string]struct {
		bytes float64
		call  func() error
	}{
		"copy blocks": {16 * elements, func() error {
			return be.CopyBlocks(own, backend.CopyBlocksParams[*Buffer]{From: cache, To: other, Pairs: pairs, N: 1})
		}},
		"pack": {8 * elements, func() error {
			return be.ConvertBlocks(own, backend.ConvertBlocksParams[*Buffer]{From: cache, To: codes, Pairs: pairs, N: 1})
		}},
		"unpack": {8 * elements, func() error {
			return be.ConvertBlocks(own, backend.ConvertBlocksParams[*Buffer]{From: codes, To: other, Pairs: pairs, N: 1})
		}},
		"move": {16 * dim, func() error {
			return be.MoveSlots(own, backend.MoveSlotsParams[*Buffer]{Cache: cache, Pairs: place[int64](w, backend.I64, 0, 5), N: 1})
		}},
		"append": {8 * 2 * dim, func() error {
			row := w.rows(with(abi.Wide), dim)
			return be.Append(own, backend.AppendParams[*Buffer]{Cache: cache, Tokens: 1, K: row, V: row, Slots: place[int64](w, backend.I64, 3)})
		}},
	} {
		own.open = 0
		require.NoError(t, c.call(), name)
		require.InEpsilon(t, c.bytes*be.pace.memory, own.open, 1e-9, name)
	}
	require.NoError(t, own.Sync())
}
