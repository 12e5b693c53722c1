//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// promptCall is attention for two sequences in f16, some of whose items are parts if so asked.
func promptCall(t testing.TB, be *Backend, parts bool) (*world, backend.AttendParams[*Buffer]) {
	const qHeads, block = 2, 512
	w := newWorld(t, be)
	halves := func(n int) *Buffer {
		data := make([]float32, n)
		for i := range data {
			data[i] = 2*w.rng.Float32() - 1
		}
		return place(w, backend.F16, data...)
	}
	plane := func() backend.Plane[*Buffer] { return backend.Plane[*Buffer]{Data: halves(2 * block * dim), Dim: dim} }
	contexts, queries := []uint32{300, 450}, []uint32{200, 9}
	p := backend.AttendParams[*Buffer]{QHeads: qHeads, Scale: 0.125, Q: backend.Dense(halves(209 * qHeads * dim)),
		Batch: backend.Ragged[*Buffer]{Seqs: 2, Tokens: 209, ContextLens: place(w, backend.U32, contexts...), QueryOffsets: backend.Some(place[uint32](w, backend.U32, 0, 200, 209))},
		Out:   backend.Outputs[*Buffer]{Rows: backend.Dense(halves(209 * qHeads * dim))},
		Cache: backend.CacheView[*Buffer]{K: plane(), V: plane(), Blocks: 2, KVHeads: 1, BlockSize: block}}
	resident := 1
	if parts {
		resident = 100
	}
	var err error
	p.Plan, err = plan.Attend(backend.AttendShape{QHeads: qHeads, KVHeads: 1, KDim: dim, VDim: dim, BlockSize: block,
		Format: backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}, ContextLens: contexts, QueryLens: queries}, plan.Capacity{resident, resident, resident}.Resident)
	require.NoError(t, err)
	require.Equal(t, parts, p.Plan.Parts > 0)
	p.Work = backend.Some(place(w, backend.U32, p.Plan.Work...))
	if p.Plan.Workspace > 0 {
		p.Workspace = backend.Some(w.zeros(p.Plan.Workspace))
	}
	require.NoError(t, w.s.Sync())
	return w, p
}

// prompts makes that call, and returns the bits of the rows, how many items they took, those of the merge
// too, and how many command buffers.
func prompts(t testing.TB, be *Backend, parts bool) (rows []uint32, items, buffers int) {
	w, p := promptCall(t, be, parts)
	before, _ := commits()
	require.NoError(t, be.Attend(w.s, p))
	var calls launch.Calls
	require.NoError(t, launch.Attend(&calls, &p))
	for _, c := range calls.List() {
		items += int(c.Grid[0])
	}
	require.NoError(t, w.s.Sync())
	after, _ := commits()
	return slices.Clone(words(t, be, p.Out.Rows.Buf)), items, after - before
}

// However long a command buffer may be, the bits are the same, and there are as many as
// the bound asks for.
func TestPiecesAreTheSame(t *testing.T) {
	for _, parts := range []bool{false, true} {
		inAnyOrder(func() {
			whole := open(t)
			want, items, buffers := prompts(t, whole, parts)
			require.NotZero(t, want[0])
			_, known := commits()
			if known {
				require.Equal(t, 1, buffers)
			}
			be := open(t)
			be.pace.most, be.pace.groups = 0, 1
			rows, _, buffers := prompts(t, be, parts)
			require.Equal(t, want, rows)
			if known {
				require.Equal(t, items, buffers, "one for each item")
			}
			be = open(t)
			be.pace.most, be.pace.groups = 3e-5, 1
			rows, _, buffers = prompts(t, be, parts)
			require.Equal(t, want, rows)
			if known {
				require.Greater(t, buffers, 1)
				require.Less(t, buffers, items)
			}
		})
	}
}

// What benchmarks launch is of no plan that the stream knows: it is one launch.
func TestLaunchesOfNoPlan(t *testing.T) {
	be := open(t)
	be.pace.most, be.pace.groups = 0, 1
	want, _, _ := prompts(t, be, true)
	w, p := promptCall(t, be, true)
	own := w.s.(*stream)
	require.NoError(t, launch.Attend(own.Calls(), &p))
	require.NoError(t, own.Run())
	require.NoError(t, w.s.Sync())
	require.Equal(t, want, words(t, be, p.Out.Rows.Buf))
}
