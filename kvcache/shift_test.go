package kvcache

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/stretchr/testify/require"
)

// A Shift that fails before it has changed anything in place leaves the sequence,
// its blocks and its reservation as they were; afterwards the sequence can only be
// released, and says so.
func TestShiftFailure(t *testing.T) {
	for _, c := range []struct {
		op    backendtest.Op
		after int
		lost  bool // the content
	}{
		{backendtest.OpAlloc, 0, false}, {backendtest.OpAlloc, 2, false}, {backendtest.OpUpload, 0, false}, {backendtest.OpUpload, 3, false}, {backendtest.OpWait, 0, false},
		{backendtest.OpCopyBlocks, 1, false}, {backendtest.OpMoveSlots, 0, false}, {backendtest.OpMoveSlots, 1, true}, {backendtest.OpRotate, 0, true}, {backendtest.OpRecord, 0, true},
	} {
		r, dev, be := lateRig(t, small(Paged))
		s2, err := dev.NewStream()
		require.NoError(t, err)
		a := r.open()
		require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 7)}))
		b, err := a.Fork()
		require.NoError(t, err)
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, 20}))
		before := r.stats()
		dev.failOn(c.op, c.after)
		require.ErrorIs(t, a.Shift(s2, 1, 3), errBoom, c.op)
		dev.SetFault(nil)
		after := r.stats()
		after.Peak = before.Peak
		require.Equal(t, before, after, "%s after %d", c.op, c.after)
		r.expect(r.s, b, tokens(sequence(1, 7)...))
		if c.lost {
			require.ErrorIs(t, a.Truncate(0), errBoom)
		} else {
			r.expect(r.s, a, tokens(sequence(1, 7)...))
			require.NoError(t, a.Shift(s2, 1, 3))
			r.expect(s2, a, []token{{1, 0}, {4, -2}, {5, -2}, {6, -2}, {7, -2}})
		}
		require.NoError(t, errors.Join(a.Release(), b.Release(), s2.Sync()))
		closeLate(t, r, dev, be)
	}
}

// Dropping the end of a sequence moves no key, so it takes no blocks, not even
// where the last one is shared.
func TestShiftOfTheEndTakesNoBlocks(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 2
	r := deviceRig(t, cfg)
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 7)}))
	b, err := a.Fork()
	require.NoError(t, err)
	require.NoError(t, b.Shift(r.s, 5, 7))
	r.expect(r.s, a, tokens(sequence(1, 7)...))
	r.expect(r.s, b, tokens(sequence(1, 5)...))
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	r.close()
}
