package kvcache

import (
	"cmp"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// Attention over a step's new tokens before a layer has their keys and values would read
// whatever the slots hold.
func TestAttendNeedsTheStepsRows(t *testing.T) {
	promptPools(t, func(t *testing.T, r *rig[buffer]) {
		seq := r.open()
		require.NoError(t, r.feed2(seq, sequence(1, 17))) // with Residual some of it is quantized
		q, k, v, out := r.operands(2)
		short := r.vector(r.s, []float32{0})
		require.NoError(t, r.plan(r.s, feed[buffer]{seq, []uint32{18, 19}}))
		to := backend.Outputs[buffer]{Rows: backend.Dense(out)}
		early := func(layer int) {
			t.Helper()
			require.ErrorIs(t, r.step.Attend(layer, attending(q, out)), ErrStep{})
			require.ErrorIs(t, r.step.Attend(layer, attendingTo(backend.Dense(q), to)), ErrStep{})
		}
		early(0)
		require.NoError(t, r.step.Append(0, kv(k, v)))
		require.NoError(t, r.step.Attend(0, attending(q, out)))
		early(1)
		require.ErrorIs(t, r.step.Append(1, kv(k, short)), backend.ErrArgument{})
		early(1)
		require.NoError(t, r.step.Append(1, kv(k, v)))
		require.NoError(t, r.step.Attend(1, attendingTo(backend.Dense(q), to)))
		require.NoError(t, r.step.Commit())

		require.NoError(t, r.plan(r.s, feed[buffer]{seq, []uint32{20, 21}}))
		early(1) // of another step
		if _, err := r.step.Metadata(0); err == nil {
			require.NoError(t, r.step.Attend(1, attending(q, out)), "the runner writes by itself")
		} else {
			require.ErrorIs(t, err, backend.ErrUnsupported{}, "two tiers")
		}
		require.NoError(t, r.step.Reset())
		require.NoError(t, seq.Release())
		r.free(q, k, v, out, short)
	})
}

// recorder is a device whose graphs remember nothing: what is captured runs at once.
type recorder struct{ backend.Backend[buffer] }

type noGraph struct{}

func (noGraph) Launch() error { return nil }
func (noGraph) Close() error  { return nil }

func (recorder) Capture(_ backend.Stream, record func() error) (backend.Graph, error) {
	return noGraph{}, record()
}

// What was appended before a capture is not part of it, nor is what was captured part of the
// step before it is replayed.
func TestAttendNeedsTheCapturedRows(t *testing.T) {
	r := newRig(t, backend.Backend[buffer](recorder{openDevice(t)}), small(Paged))
	seq := r.open()
	q, k, v, out := r.operands(1)
	require.NoError(t, r.step.FixShape(1, 1))
	require.NoError(t, r.plan(r.s, feed[buffer]{seq, []uint32{1}}))
	both := func(each func(layer int) error) func() error {
		return func() error { return cmp.Or(each(0), each(1)) }
	}
	write := func(l int) error { return r.step.Append(l, kv(k, v)) }
	attend := func(l int) error { return r.step.Attend(l, attending(q, out)) }

	require.NoError(t, both(write)())
	require.ErrorIs(t, r.step.Capture(both(attend)), ErrStep{})
	require.NoError(t, both(attend)(), "a capture that failed changes nothing")
	require.NoError(t, r.step.Capture(both(func(l int) error { return cmp.Or(write(l), attend(l)) })))
	require.ErrorIs(t, both(attend)(), ErrStep{}, "nothing has run yet")
	require.NoError(t, r.step.Replay())
	require.NoError(t, both(attend)())
	require.NoError(t, r.step.Commit())
	require.NoError(t, cmp.Or(r.step.Reset(), seq.Release()))
	require.NoError(t, r.step.Close())
	r.free(q, k, v, out)
	r.close()
}
