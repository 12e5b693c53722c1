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

// draft computes tokens, the last n of which are guesses.
func (r *rig[B]) draft(x *reader[B], ids []uint32, n int) {
	r.t.Helper()
	require.NoError(r.t, r.step.Reset())
	require.NoError(r.t, r.step.AddDraft(x.seq, ids, n))
	require.NoError(r.t, r.step.Plan(r.s))
	r.write(r.s, feed[B]{x.seq, x.ids(ids)})
	require.NoError(r.t, r.step.Commit())
	x.wrote(ids, x.ids(ids))
}

// E5: tokens of a draft are found by nobody, and nobody is told of them, until the next step, or Truncate, accepts them.
// What was accepted before a Release is offered by that, and what was not is dropped.
func TestE5DraftsReachNobody(t *testing.T) {
	r := reuseRig(t, 40)
	watch := newMirror(t, r.pool)
	told := func() (all []uint32) {
		for len(watch.sub.C) > 0 {
			e := <-watch.sub.C
			all = append(all, e.Tokens...)
		}
		return all
	}
	shorten := func(x *reader[buffer], n int) {
		require.NoError(t, x.seq.Truncate(n))
		x.tokens, x.want = x.tokens[:n], x.want[:n]
	}
	a, _ := r.serve(sequence(1, 6), OpenOptions{})
	require.Equal(t, sequence(1, 4), told())
	for range 3 { // the second block is full of guesses
		r.draft(a, sequence(90, 4), 4)
		require.Equal(t, 4, r.matched(append(sequence(1, 6), 90, 91, 92), OpenOptions{}))
		shorten(a, 6)
	}
	r.draft(a, sequence(7, 4), 3)
	require.Empty(t, told())
	shorten(a, 9) // 8 and 9 are right
	require.Equal(t, sequence(5, 4), told())
	r.draft(a, sequence(10, 4), 3)
	require.Empty(t, told())
	r.draft(a, sequence(14, 3), 2) // all were right
	require.Equal(t, sequence(9, 4), told())
	require.NoError(t, a.seq.Release())
	require.Equal(t, sequence(13, 2), told())
	b, m := r.read(sequence(1, 15), OpenOptions{})
	require.Equal(t, 14, m.Cached)
	r.draft(b, sequence(15, 3), 2)
	require.Empty(t, told())
	shorten(b, 16)
	require.Equal(t, sequence(13, 4), told())
	r.drop(b)
	require.Equal(t, 16, r.matched(sequence(1, 18), OpenOptions{}))
	require.ErrorIs(t, r.step.AddDraft(nil, sequence(1, 2), 3), backend.ErrArgument{})
	require.ErrorIs(t, r.step.AddDraft(nil, sequence(1, 2), -1), backend.ErrArgument{})
	r.close()
}

// What is accepted while another one writes the same is not published before that is done: whoever found the blocks of both
// would wait for one alone.
func TestAcceptedBehindAnotherWriter(t *testing.T) {
	for seed := range uint64(5) {
		r, _, s2, done := reuseLate(t, 40, seed)
		r2 := r.on(s2)
		b, _ := r.read(nil, OpenOptions{})
		r2.draft(b, sequence(1, 10), 9)
		require.NoError(t, s2.Sync())
		a, _ := r.read(sequence(1, 6), OpenOptions{})
		require.NoError(t, r.prefill(r.s, a)) // and is not done
		require.NoError(t, b.seq.Truncate(10))
		if seed%2 == 0 {
			require.NoError(t, b.seq.Release())
		} else {
			r2.draft(b, []uint32{11}, 0)
		}
		c, m := r.read(sequence(1, 10), OpenOptions{})
		require.Equal(t, map[bool]int{true: 4, false: 8}[seed%2 == 0], m.Cached)
		require.NoError(t, r2.prefill(s2, c))
		r.check(s2, c)
		require.NoError(t, errors.Join(a.seq.Release(), c.seq.Release()))
		if seed%2 != 0 {
			require.NoError(t, b.seq.Release())
		}
		done()
	}
}

// So it is in pools with groups, where what is accepted may be a window's block of an entry that another one writes.
func TestAcceptedBehindAnotherWriterOfGroups(t *testing.T) {
	be := openDevice(t)
	dev := newLateDevice(be, backendtest.LateOptions{Seed: 1, OnlyWaits: true})
	cfg := manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9}, config.Group{Layers: []int{1, 3}})
	cfg.Memory.Rollback = 8
	w := groupedOn(newRig(t, dev, cfg), 1)
	s2, err := dev.NewStream()
	require.NoError(t, err)
	other := groupedOn(w.on(s2), 1)
	b, _ := other.open(nil)
	b.next = 8
	require.NoError(t, other.run(ask{b, sequence(1, 8)}))
	require.NoError(t, s2.Sync())
	a, _, err := w.pool.Open(nil, OpenOptions{})
	require.NoError(t, err)
	require.NoError(t, w.step.Add(a, sequence(1, 40)))
	require.NoError(t, w.step.Plan(w.s))
	w.write(w.s, feed[buffer]{a, sequence(1, 40)})
	require.NoError(t, w.step.Commit())
	e := a.runs.Path[0]
	writes := w.pool.parts.Blocks.Writer(e)
	require.False(t, writes.Reached())
	require.NoError(t, b.seq.Truncate(8))
	require.NoError(t, b.seq.Release())
	require.Same(t, writes, w.pool.parts.Blocks.Writer(e))
	require.NoError(t, errors.Join(a.Release(), s2.Sync()))
	closeLate(t, w.rig, dev, be)
}

// What is accepted of a draft is as it was computed, though the next step goes on from tokens that were brought back.
func TestAcceptedBeforeTokensAreBroughtBack(t *testing.T) {
	for draft, found := range map[int]int{0: 28, 16: 24} { // without one the rejected are found, too
		cfg := small(Paged)
		cfg.Storage.K, cfg.Model.Act, cfg.Storage.Residual = backend.Int8, backend.F32, 8
		r := deviceRig(t, cfg)
		x, _ := r.read(nil, OpenOptions{})
		r.draft(x, sequence(1, 20), 0)
		r.draft(x, sequence(21, 16), draft)
		require.NoError(t, x.seq.Truncate(26))
		x.tokens, x.want = x.tokens[:26], x.want[:26]
		r.draft(x, []uint32{500}, 0)
		require.Equal(t, found, r.matched(sequence(1, 30), OpenOptions{}), "a draft of %d", draft)
		require.NoError(t, x.seq.Release())
		r.close()
	}
}
