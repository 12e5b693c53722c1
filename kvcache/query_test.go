package kvcache

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// E7: a sequence that open steps query can be queried by others, and nothing else is done with it before all of them are over. One
// that a step writes is not queried, and the other way round.
func TestQueriedSequences(t *testing.T) {
	w := newMixed(t, small(Paged))
	a, b := w.fresh(), w.fresh()
	require.NoError(t, w.run(deal{told: a, ids: sequence(1, 6)}, deal{told: b, ids: sequence(11, 3)}))
	second, third := w.pool.NewBatch(), w.pool.NewBatch()
	require.NoError(t, w.step.Query(a.seq, once(2, 6)))
	require.NoError(t, w.step.Add(b.seq, []uint32{14}))
	require.NoError(t, w.step.Query(a.seq, once(1, 3)))
	require.NoError(t, second.Query(a.seq, once(4, 6)))
	require.Equal(t, 4, w.step.Tokens())
	require.Equal(t, 4, second.Tokens())
	require.ErrorIs(t, w.step.Add(a.seq, []uint32{1}), ErrStep{})
	require.ErrorIs(t, w.step.Query(b.seq, once(1, 3)), ErrStep{})
	require.ErrorIs(t, third.Add(a.seq, []uint32{1}), ErrBusy)
	require.ErrorIs(t, third.Query(b.seq, once(1, 3)), ErrBusy)
	busy := func() {
		require.ErrorIs(t, a.seq.Release(), ErrBusy)
		require.ErrorIs(t, a.seq.Truncate(2), ErrBusy)
		require.ErrorIs(t, a.seq.Shift(w.s, 0, 1), ErrBusy)
		require.ErrorIs(t, a.seq.Retain(w.s, [][]int{{0}}, RetainOptions{}), ErrBusy)
		_, err := a.seq.Fork()
		require.ErrorIs(t, err, ErrBusy)
		require.Zero(t, a.seq.Resumable(3))
		require.ErrorIs(t, a.seq.Err(), ErrBusy)
	}
	busy()
	require.NoError(t, w.step.Plan(w.s))
	require.NoError(t, second.Plan(w.s))
	require.NoError(t, w.pool.Check())
	require.NoError(t, w.step.Reset())
	busy()
	require.NoError(t, third.Query(a.seq, once(1, 6)))
	require.NoError(t, second.Commit(), "a step without new tokens wants no keys and values")
	busy()
	require.NoError(t, third.Close())
	require.NoError(t, a.seq.Err())

	for _, v := range []View{{-1, 2}, {40, 2}, {0, -1}, {0, 7}} {
		require.ErrorIs(t, w.step.Query(a.seq, []View{v}), backend.ErrArgument{}, "%+v", v)
	}
	require.ErrorIs(t, w.step.Query(a.seq, nil), backend.ErrArgument{})
	require.ErrorIs(t, w.step.Query(nil, once(1, 1)), backend.ErrArgument{})
	require.NoError(t, w.step.Reset())
	require.NoError(t, w.step.FixShape(1, 1))
	require.ErrorIs(t, w.step.Query(a.seq, once(1, 1)), backend.ErrUnsupported{})
	require.NoError(t, w.step.FixShape(0, 0))
	empty := w.fresh()
	require.NoError(t, w.run(deal{told: empty, views: []View{{0, 0}, {7, 0}}}, deal{told: a, views: []View{{39, 6}}}), "nothing is there, or seen from far away")
	w.drop(a)
	require.ErrorIs(t, w.step.Query(a.seq, once(1, 1)), ErrReleased)
	w.drop(b)
	w.drop(empty)
	w.close()
}

// E7: the blocks of a sequence that was queried on several streams go to nobody before all of those steps are done, and a step that
// writes the sequence comes after them.
func TestQueriesOnSeveralStreams(t *testing.T) {
	for seed := range uint64(6) {
		cfg, be := small(Paged), openDevice(t)
		cfg.Memory.Blocks = 10
		dev := newLateDevice(be, backendtest.LateOptions{Seed: seed})
		r := newRig(t, dev, cfg)
		w := mixedOn(r, seed)
		if !w.pool.caps.Views {
			closeLate(t, r, dev, be)
			skip(t)
		}
		s2, err := dev.NewStream()
		require.NoError(t, err)
		s := w.fresh()
		require.NoError(t, w.run(deal{told: s, ids: sequence(1, 7)}))
		second := w.pool.NewBatch()
		require.NoError(t, errors.Join(w.step.Query(s.seq, once(3, 7)), second.Query(s.seq, once(2, 7))))
		require.NoError(t, errors.Join(w.step.Plan(w.s), second.Plan(s2)))
		c := &w.pool.cfg.Model
		q, out := w.vector(w.s, make([]float32, 3*c.QHeads*c.HeadDim)), w.vector(w.s, make([]float32, 3*c.QHeads*c.VHeadDim))
		q2, out2 := w.vector(s2, make([]float32, 2*c.QHeads*c.HeadDim)), w.vector(s2, make([]float32, 2*c.QHeads*c.VHeadDim))
		for l := range c.Layers {
			require.NoError(t, errors.Join(w.step.Attend(l, attending(q, out)), second.Attend(l, attending(q2, out2))))
		}
		require.NoError(t, errors.Join(w.step.Commit(), second.Commit()))
		require.NoError(t, s.seq.Release())
		w.seqs = nil
		next := w.fresh() // needs all blocks
		require.NoError(t, w.run(deal{told: next, ids: sequence(50, 39)}))
		require.NoError(t, errors.Join(w.s.Sync(), s2.Sync()))
		got, got2 := w.download(out), w.download(out2)
		want := w.attend(c, c.Layers-1, make([]float32, c.QHeads*c.HeadDim), sequence(1, 7), func(int) bool { return true })
		for j, x := range want {
			require.InDelta(t, x, got[j], 1e-5)
			require.InDelta(t, x, got2[j], 1e-5)
		}
		w.free(q, out, q2, out2)
		w.drop(next)
		require.NoError(t, errors.Join(second.Close(), s2.Close()))
		closeLate(t, r, dev, be)
	}
}

// A query that would see what a window or a chunk has given up is told so; others see what is there, wherever they are.
func TestQueriesOfWhatIsGone(t *testing.T) {
	for name, g := range map[string]config.Group{
		"window": {Kind: group.Window, Layers: []int{0, 1}, Window: 9, Sinks: 2}, "chunked": {Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 12},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := manyKinds(g, config.Group{Layers: []int{2}})
			cfg.Memory.Rollback = 5
			w := newMixed(t, cfg)
			s := w.fresh()
			require.NoError(t, w.run(deal{told: s, ids: sequence(1, 60)}))
			for p := range 70 {
				err := w.run(deal{told: s, views: []View{{59, 60}, {p, 60}, {p, min(p+1, 60)}, {p, 20}}})
				if p >= 55 {
					require.NoError(t, err, "position %d", p)
					continue
				}
				var gone ErrView
				if errors.As(err, &gone) {
					require.Equal(t, [2]int{1, p}, [2]int{gone.Query, gone.Position})
					require.Equal(t, g.Kind, gone.Group)
					require.Positive(t, gone.First)
					require.Less(t, p, 52, "what the next tokens see is there")
				} else {
					require.NoError(t, err)
				}
			}
			w.drop(s)
			w.close()
		})
	}
}

// Layers that keep what the next token sees and no more have given up, now and then, what the last one saw; one that goes back by
// a token has not.
func TestQueriesOfTheLastPosition(t *testing.T) {
	for _, back := range []int{-1, 1} {
		cfg := manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 1}, Window: 9}, config.Group{Kind: group.Chunked, Layers: []int{2}, Chunk: 12})
		cfg.Memory.Rollback = back
		w := newMixed(t, cfg)
		s, gone := w.fresh(), 0
		for n := 1; n <= 60; n++ {
			require.NoError(t, w.run(deal{told: s, ids: []uint32{uint32(n)}}))
			switch err := w.run(deal{told: s, views: []View{{n - 1, n}}}); {
			case errors.Is(err, ErrView{}):
				gone++
			default:
				require.NoError(t, err)
			}
		}
		require.Equal(t, back < 0, gone > 0, "%d times", gone)
		require.Less(t, gone, 60)
		w.drop(s)
		w.close()
	}
}

// A pool that is closed while steps query a sequence gives its memory back, and leaves nothing to do for them.
func TestPoolsThatAreClosedUnderQueries(t *testing.T) {
	w := newMixed(t, small(Paged))
	s, second := w.fresh(), w.pool.NewBatch()
	require.NoError(t, w.run(deal{told: s, ids: sequence(1, 6)}))
	require.NoError(t, second.Query(s.seq, once(1, 6)))
	require.NoError(t, w.step.Query(s.seq, once(1, 6)))
	require.NoError(t, w.step.Plan(w.s))
	require.NoError(t, w.pool.Check())
	require.NoError(t, w.pool.Close())
	require.ErrorIs(t, w.step.Reset(), ErrClosed)
	require.ErrorIs(t, second.Reset(), ErrClosed)
	require.Zero(t, w.be.Info().Buffers)
	require.NoError(t, errors.Join(w.s.Close(), w.be.Close()))
}
