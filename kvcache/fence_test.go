package kvcache

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/stretchr/testify/require"
)

// lateRig is a rig on a device that makes no progress until somebody waits.
func lateRig(t testT, cfg Config) (*rig[buffer], *lateDevice, backend.Backend[buffer]) {
	be := openDevice(t)
	dev := newLateDevice(be, backendtest.LateOptions{Seed: 7, OnlyWaits: true})
	return newRig(t, dev, cfg), dev, be
}

func (r *rig[B]) stats() Stats {
	r.t.Helper()
	require.NoError(r.t, r.pool.Check())
	st, err := r.pool.Stats()
	require.NoError(r.t, err)
	return st
}

func closeLate(t *testing.T, r *rig[buffer], dev *lateDevice, be backend.Backend[buffer]) {
	t.Helper()
	require.NoError(t, errors.Join(r.s.Sync(), r.step.Reset()))
	require.Zero(t, r.stats().Held)
	require.NoError(t, errors.Join(r.pool.Close(), dev.late.Drain()))
	require.Zero(t, be.Info().Buffers)
	require.NoError(t, be.Close())
}

// Blocks of a released sequence stay held while a step that reads them is on the
// device, and come back when it is done.
func TestReleaseIsFenced(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5}}))
	require.NoError(t, a.Release())
	st := r.stats()
	require.Equal(t, 2, st.Held)
	require.Equal(t, 2, st.Retired)
	require.Zero(t, st.Logical)
	require.NoError(t, r.s.Sync())
	require.Zero(t, r.stats().Held)
	closeLate(t, r, dev, be)
}

// With several steps ahead the fence is the last one.
func TestLastStepIsTheFence(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	a := r.open()
	var first backend.Event
	for i := range 3 {
		require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3}}))
		if i == 0 {
			e, err := dev.NewEvent()
			require.NoError(t, err)
			require.NoError(t, r.s.Record(e))
			first = e
		}
	}
	require.NoError(t, a.Truncate(1))
	require.Equal(t, 3, r.stats().Held)
	require.NoError(t, first.Sync())
	require.Equal(t, 3, r.stats().Held, "the first of three steps is done, the last is not")
	require.NoError(t, r.s.Sync())
	require.Equal(t, 1, r.stats().Held)
	require.NoError(t, a.Release())
	closeLate(t, r, dev, be)
}

// When blocks are short, a step waits for those on their way back before it gives up.
func TestPlanWaitsForRetiredBlocks(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 2
	r, dev, be := lateRig(t, cfg)
	a, b := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5}}))
	require.NoError(t, a.Release())
	require.NoError(t, r.feed(feed[buffer]{b, []uint32{6, 7, 8, 9, 10}}))
	r.expect(r.s, b, tokens(6, 7, 8, 9, 10))
	require.NoError(t, b.Release())
	closeLate(t, r, dev, be)
}

// An abandoned step gives its blocks back behind its own work, and the source of
// its copies stays with the sequence.
func TestAbandonedStepChangesNothing(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5}}))
	b, err := a.Fork()
	require.NoError(t, err)
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{b, 20}))
	before := r.stats()
	require.NoError(t, r.plan(r.s, feed[buffer]{b, []uint32{6, 7, 8, 9, 10, 11, 12, 13}}))
	require.ErrorIs(t, b.Truncate(1), ErrBusy)
	require.ErrorIs(t, b.Release(), ErrBusy)
	_, err = b.Fork()
	require.ErrorIs(t, err, ErrBusy)
	r.write(r.s, feed[buffer]{b, []uint32{6, 7, 8, 9, 10, 11, 12, 13}})
	require.NoError(t, r.step.Reset())
	require.NoError(t, r.s.Sync())
	after := r.stats()
	after.Peak = before.Peak
	require.Equal(t, before, after, "reservation included")
	r.expect(r.s, a, tokens(1, 2, 3, 4, 5))
	r.expect(r.s, b, tokens(1, 2, 3, 4, 5))
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	closeLate(t, r, dev, be)
}

// A failure at any point of Plan, Commit or Shift leaves sequences as they were,
// or, after a failed Shift, unusable but releasable; nothing leaks.
func TestDeviceFailures(t *testing.T) {
	for _, op := range []backendtest.Op{backendtest.OpAlloc, backendtest.OpUpload, backendtest.OpCopyBlocks, backendtest.OpWait,
		backendtest.OpRecord, backendtest.OpMoveSlots, backendtest.OpRotate} {
		for after := range 3 {
			r, dev, be := lateRig(t, small(Paged))
			s2, err := dev.NewStream()
			require.NoError(t, err)
			a := r.open()
			require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5, 6}}))
			b, err := a.Fork()
			require.NoError(t, err)
			dev.failOn(op, after)
			ids := []uint32{7, 8, 9, 10}
			step := r.plan(s2, feed[buffer]{b, ids})
			if step == nil {
				if step = r.commit(); step != nil {
					step = errors.Join(step, r.step.Reset())
				}
			}
			if step != nil {
				require.ErrorIs(t, step, errBoom)
				require.Equal(t, 6, b.Len())
			}
			shift := a.Shift(s2, 1, 3)
			if shift != nil {
				require.ErrorIs(t, shift, errBoom)
			}
			dev.SetFault(nil)
			require.NoError(t, errors.Join(r.s.Sync(), s2.Sync()), "%s after %d", op, after)
			if step != nil {
				r.expect(r.s, b, tokens(1, 2, 3, 4, 5, 6))
			}
			if shift == nil {
				r.expect(r.s, a, []token{{1, 0}, {4, -2}, {5, -2}, {6, -2}})
			}
			require.NoError(t, errors.Join(a.Release(), b.Release()), "%s after %d", op, after)
			require.NoError(t, s2.Sync())
			closeLate(t, r, dev, be)
		}
	}
}

// A lost device closes the pool to new work; releasing and closing still go.
func TestLostDeviceClosesPool(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.plan(r.s, feed[buffer]{a, []uint32{1}}))
	q, k, v, out := r.operands(1)
	dev.SetFault(enqueued(func(backendtest.Op) error { return backend.ErrLost }))
	require.ErrorIs(t, r.step.Append(0, kv(k, v)), backend.ErrLost)
	dev.SetFault(nil)
	r.free(q, k, v, out)
	require.NoError(t, r.step.Reset())
	require.ErrorIs(t, r.plan(r.s, feed[buffer]{a, []uint32{1}}), backend.ErrLost)
	_, err := a.Fork()
	require.ErrorIs(t, err, backend.ErrLost)
	require.NoError(t, a.Release())
	closeLate(t, r, dev, be)
}
