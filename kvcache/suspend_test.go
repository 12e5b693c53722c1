package kvcache

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// away suspends and resumes a sequence. Where blocks that it shared lack for that, it is released, and away reports false.
func (r *rig[B]) away(seq *Sequence[B]) bool {
	r.t.Helper()
	n := seq.Len()
	require.NoError(r.t, seq.Suspend())
	require.ErrorIs(r.t, seq.Err(), ErrSuspended)
	require.ErrorIs(r.t, seq.Truncate(0), ErrSuspended)
	require.ErrorIs(r.t, seq.Suspend(), ErrSuspended)
	require.Equal(r.t, n, seq.Len())
	require.Empty(r.t, seq.Blocks(nil))
	require.NoError(r.t, r.pool.Check())
	if err := seq.Resume(); err != nil {
		require.ErrorIs(r.t, err, ErrOutOfBlocks{})
		require.ErrorIs(r.t, seq.Err(), ErrSuspended)
		require.NoError(r.t, seq.Release())
		return false
	}
	require.NoError(r.t, r.pool.Check())
	require.Equal(r.t, n, seq.Len())
	require.ErrorIs(r.t, seq.Resume(), ErrStep{})
	return true
}

func (m *machine[B]) Suspend(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	if !m.away(ms.seq) {
		m.seqs = slices.DeleteFunc(m.seqs, func(o *modelSeq[B]) bool { return o == ms })
	}
}

func (m *windowMachine) Suspend(t *rapid.T) {
	ms := m.pick(t)
	m.t = t
	if !m.away(ms.seq) {
		m.seqs = slices.DeleteFunc(m.seqs, func(o *windowedSeq) bool { return o == ms })
	}
}

// A conversation that makes room for others goes on as if it had stayed, in every layout.
func TestSuspendedGoesOn(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		cfg := small(layout)
		if cfg.Memory.MaxSeqs = 1; layout == Paged {
			cfg.Memory.Blocks = 10
		}
		r := deviceRig(t, cfg)
		x, _ := r.read(sequence(1, 23), OpenOptions{})
		require.NoError(t, r.prefill(r.s, x))
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{x.seq, 40}))
		require.NoError(t, x.seq.Suspend())
		st := r.idle()
		require.Zero(t, st.Held+st.Reserved)
		require.Equal(t, 1, st.Suspended)
		require.Equal(t, x.seq.runs.Suspended.Bytes(), st.BytesAway)
		_, err := x.seq.Fork()
		require.ErrorIs(t, err, ErrSuspended)

		y, _ := r.read(nil, OpenOptions{})
		require.NoError(t, r.run(r.s, part[buffer]{y, sequence(100, 40)}))
		require.ErrorIs(t, x.seq.Resume(), ErrOutOfBlocks{})
		r.drop(y)
		require.NoError(t, x.seq.Resume())
		r.check(r.s, x)
		require.NoError(t, r.run(r.s, part[buffer]{x, sequence(24, 17)}))
		r.drop(x)
		r.close()
	}
}

// What was quantized and what is exact come back as they were after others have had the blocks of both, and are where they were.
func TestSuspendedWithResidualGoesOn(t *testing.T) {
	for _, f := range windowFormats(backend.F32) {
		for _, more := range []int{0, 1} { // the last block is full, or has one token
			cfg := windowConfig(f)
			cfg.Memory.MaxSeqs, cfg.Memory.Blocks = 1, cfg.Memory.Capacity/cfg.Memory.BlockSize
			r := deviceRig(t, cfg)
			c := r.pool.Config()
			x, fresh := r.open(), 1000
			feed1 := func(seq *Sequence[buffer], n int) {
				for fresh++; n > 0; n, fresh = n-c.Memory.BlockSize, fresh+c.Memory.BlockSize {
					require.NoError(t, r.feed(feed[buffer]{seq, sequence(fresh, min(n, c.Memory.BlockSize))}))
				}
			}
			feed1(x, 5*c.Memory.BlockSize+more)
			var had []past
			for l := range c.Model.Layers {
				had = append(had, r.quantized(r.s, x, l), r.recent(r.s, x, l))
			}
			require.NotZero(t, had[0].n)
			require.NotZero(t, had[1].n)
			g := x.runs.In[0].Written
			from, held := g.From, len(g.Blocks)
			require.NotZero(t, from)
			require.NoError(t, x.Suspend())
			y := r.open()
			feed1(y, c.Memory.Capacity) // all blocks
			require.NoError(t, y.Release())
			r.idle()
			require.NoError(t, x.Resume())
			require.NoError(t, r.pool.Check())
			require.Equal(t, []int{from, held}, []int{g.From, len(g.Blocks)})
			for l := range c.Model.Layers {
				require.Equal(t, had[2*l], r.quantized(r.s, x, l), "%v, quantized in layer %d", f, l)
				require.Equal(t, had[2*l+1], r.recent(r.s, x, l), "%v, exact in layer %d", f, l)
			}
			feed1(x, c.Memory.BlockSize)
			require.NoError(t, x.Release())
			r.close()
		}
	}
}

// Two that share what they begin with share it again.
func TestResumedShareAgain(t *testing.T) {
	r := reuseRig(t, 20)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	y, m := r.serve(append(sequence(1, 20), 90, 91), OpenOptions{})
	require.Equal(t, 20, m.Cached)
	require.NoError(t, x.seq.Suspend())
	require.NoError(t, x.seq.Resume())
	require.Equal(t, y.numbers()[:5], x.numbers()[:5])
	require.NoError(t, x.seq.Suspend())
	r.drop(y)
	r.forget()
	require.Zero(t, r.matched(sequence(1, 23), OpenOptions{}))
	require.NoError(t, x.seq.Resume())
	require.Equal(t, 20, r.matched(sequence(1, 23), OpenOptions{}), "and it is found")
	require.NoError(t, x.seq.Suspend())
	require.NoError(t, x.seq.Release())
	require.ErrorIs(t, x.seq.Resume(), ErrReleased)
	r.close()
}

// A pool that is closed takes what is suspended with it.
func TestClosedWhileSuspended(t *testing.T) {
	r := reuseRig(t, 20)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	require.NoError(t, x.seq.Suspend())
	require.NoError(t, r.pool.Close())
	require.ErrorIs(t, x.seq.Resume(), ErrClosed)
	require.Zero(t, r.be.Info().Buffers)
	require.Zero(t, r.be.Info().Host.Other+r.be.Info().Host.Pinned)
	require.NoError(t, r.s.Close())
	require.NoError(t, r.be.Close())
}
