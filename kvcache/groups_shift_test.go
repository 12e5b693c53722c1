package kvcache

import (
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// outputs is a step of one sequence, rotated, and what attention gives in every layer.
func (r *rig[B]) outputs(seq *Sequence[B], ids []uint32) (all [][]float32) {
	r.t.Helper()
	m := &r.pool.cfg.Model
	require.NoError(r.t, r.plan(r.s, feed[B]{seq, ids}))
	for l := range m.Layers {
		hk, hv := newRows(m, ids, l)
		q, k, v := r.vector(r.s, rows(ids, l+100, m.QHeads, m.HeadDim, false)), r.vector(r.s, hk), r.vector(r.s, hv)
		out := r.vector(r.s, make([]float32, len(ids)*m.QHeads*m.VHeadDim))
		require.NoError(r.t, r.step.Append(l, rotated(q, k, v)))
		require.NoError(r.t, r.step.Attend(l, attending(q, out)))
		require.NoError(r.t, r.s.Sync())
		all = append(all, r.download(out))
		r.free(q, k, v, out)
	}
	require.NoError(r.t, r.step.Commit())
	return all
}

// What Shift leaves in a window that has given blocks up is what it leaves where the window is a mask and everything is
// kept, to what follows; or it is refused, and nothing has changed. A multiple of a block is refused only where the window
// reaches behind the gap.
func TestGroupsShift(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	shifted, refused := 0, 0
	rounds := 60
	if emulated(testDevice().Info) && !testsize.Full() {
		rounds = 12
	}
	for range rounds {
		sinks := rng.IntN(2) * 3
		window := 5 + rng.IntN(12)
		grouped := manyKinds(config.Group{Kind: group.Window, Layers: []int{0}, Window: window, Sinks: sinks}, config.Group{Layers: []int{1}})
		grouped.Model.RoPE, grouped.Memory.Rollback = &backend.RoPE{}, []int{-1, 0}[rng.IntN(2)]
		masked := grouped
		masked.Model.Groups, masked.Model.Masks = nil, []Mask{{Window: window, SinkTokens: sinks}, {}}
		a, b := deviceRig(t, grouped), deviceRig(t, masked)
		x, y := a.open(), b.open()
		for next, rounds := 1, 0; rounds < 3; rounds++ {
			ids := sequence(next, 10+rng.IntN(40))
			next += len(ids)
			require.Equal(t, len(ids), len(a.outputs(x, ids)[0])/(4*a.pool.cfg.Model.VHeadDim))
			b.outputs(y, ids)
			n := x.Len()
			begin := rng.IntN(n)
			if rng.IntN(2) == 0 {
				begin = 4 * rng.IntN((n+3)/4)
			}
			end := min(begin+1+rng.IntN(16), n)
			if whole := begin + (end-begin+3)/4*4; rng.IntN(3) > 0 && whole <= n {
				end = whole
			}
			gone := x.runs.In[0].Gone
			err := x.Shift(a.s, begin, end)
			if err != nil {
				refused++
				require.ErrorIs(t, err, ErrGone{})
				require.Equal(t, [2]int{n, gone}, [2]int{x.Len(), x.runs.In[0].Gone})
				first, cut := x.runs.In[0].Cut()
				require.False(t, begin >= first && (end-begin)%4 == 0 && end <= n-window-4, "tokens %d to %d of %d, %d cut out", begin, end, n, cut)
			} else {
				shifted++
				require.NoError(t, y.Shift(b.s, begin, end))
			}
			require.NoError(t, a.pool.Check())
			ids = sequence(next, 1+rng.IntN(9))
			next += len(ids)
			got, want := a.outputs(x, ids), b.outputs(y, ids)
			for l := range want {
				require.InDeltaSlice(t, want[l], got[l], 1e-4, "layer %d after [%d, %d) of %d, window %d, sinks %d", l, begin, end, n, window, sinks)
			}
		}
		require.NoError(t, x.Release())
		require.NoError(t, y.Release())
		require.NoError(t, a.step.Close())
		require.NoError(t, b.step.Close())
		a.close()
		b.close()
	}
	require.Greater(t, shifted, rounds)
	require.Greater(t, refused, rounds/12)
}

// A step that was told where states are and is then reset may have written them in their place: such a sequence is used no
// more. A fork takes the harm from it.
func TestStatesOfAStepThatIsReset(t *testing.T) {
	w := newGrouped(t, manyKinds(config.Group{Kind: group.State, Layers: []int{0}, StateBytes: 8}, config.Group{Layers: []int{1}}), 3)
	s, _ := w.open(nil)
	require.NoError(t, w.run(ask{s, sequence(1, 7)}))
	try := func(seq *Sequence[buffer], look bool) {
		require.NoError(t, w.step.Reset())
		require.NoError(t, w.step.Add(seq, []uint32{9}))
		require.NoError(t, w.step.Plan(w.s))
		if look {
			_, err := w.step.State(0)
			require.NoError(t, err)
		}
		require.NoError(t, w.step.Reset())
	}
	try(s.seq, false)
	require.NoError(t, s.seq.Err(), "nobody was told")
	fork, err := s.seq.Fork()
	require.NoError(t, err)
	try(fork, true)
	require.NoError(t, fork.Err(), "it had a copy")
	require.NoError(t, fork.Release())
	require.NoError(t, w.run(ask{s, sequence(8, 2)}))
	try(s.seq, true)
	require.ErrorContains(t, s.seq.Err(), "reset")
	require.ErrorContains(t, w.step.Add(s.seq, []uint32{1}), "reset")
	_, err = w.step.State(1)
	require.ErrorIs(t, err, ErrStep{})
	w.drop(s)
	w.close()
}
