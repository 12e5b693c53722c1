package kvcache

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// failing is a test device that can be made to fail, the stand-in for a GPU.
type failing struct {
	failures       []failure
	injected, live func() uint64 // failures that have happened; objects that were not given back
	loads          func() uint64 // kernels that were looked up or compiled
	plans          bool          // NewPool leaves to Plan what only some steps need
	lose, restore  func(device int)
	misuse         func() (uint64, string) // that was found so far, and what it was
}

// failure is a kind of failure: the n-th of some calls from now on fails once, 0: none.
type failure struct {
	name string
	at   func(n int)
	want error // nil: any
}

// failingDevices are the stand-ins that this program was built with, by the kind of device.
var failingDevices = map[string]func() (failing, bool){}

// standIn is what makes the test device fail, where it is the stand-in for a GPU.
func standIn(t *testing.T) failing {
	kind, _, _ := strings.Cut(deviceName(), ":")
	if open := failingDevices[kind]; open != nil && emulated(testDevice().Info) {
		if c, ok := open(); ok {
			return c
		}
	}
	t.Skip("the test device is not the stand-in of kernels/simt; only that can be made to fail")
	return failing{}
}

// story uses a pool for everything that enqueues or allocates, and leaves nothing
// behind, whatever fails in between.
func story(be backend.Backend[buffer]) (err error) {
	s, err := be.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.Close()) }()
	pool, err := NewPool(be, small(Paged))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, errors.Join(s.Sync(), pool.Check(), pool.Close())) }()
	width := 16 * 4 * max(pool.cfg.Model.HeadDim, pool.cfg.Model.VHeadDim)
	x, err := backend.AllocFrom(be, s, backend.F32, make([]float32, width))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, be.Free(x)) }()
	out, err := be.Alloc(backend.F32, width)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, be.Free(out)) }()

	step := pool.NewBatch()
	feed := func(seq *Sequence[buffer], n int) error {
		err := cmp.Or(step.Reset(), cmp.Or(step.Add(seq, make([]uint32, n)), step.Plan(s)))
		for l := range pool.cfg.Model.Layers {
			err = cmp.Or(err, cmp.Or(step.Append(l, rotated(out, x, x)), step.Attend(l, attending(x, out))))
		}
		return cmp.Or(err, step.Commit())
	}
	a, _, err := pool.Open(nil, OpenOptions{})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, errors.Join(step.Reset(), a.Release())) }()
	if err := feed(a, 6); err != nil {
		return err
	}
	b, err := a.Fork()
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, errors.Join(step.Reset(), b.Release())) }()
	if err := cmp.Or(feed(b, 9), b.Shift(s, 1, 3)); err != nil {
		return err
	}
	if _, err := b.Layers(s); err != nil {
		return err
	}
	return b.Gather(s, 0, x, out)
}

// Out of memory at any allocation, and a launch that the driver refuses, are errors
// that leave a usable device and no block, buffer or object of the driver behind.
func TestEveryFailure(t *testing.T) {
	c := standIn(t)
	before := c.live()
	misused, _ := c.misuse()
	be := openDevice(t)
	require.NoError(t, story(be))
	for _, failure := range c.failures {
		seen := 0
		for n := 1; ; n++ {
			injected := c.injected()
			failure.at(n)
			err := story(be)
			failure.at(0)
			require.Zero(t, be.Info().Buffers, "%s %d: %v", failure.name, n, err)
			if err != nil {
				seen++
				require.NotErrorIs(t, err, backend.ErrLost)
				if failure.want != nil {
					require.ErrorIs(t, err, failure.want, "%s %d", failure.name, n)
				}
			}
			if c.injected() == injected { // there are fewer than n
				require.NoError(t, err)
				break
			}
		}
		require.Positive(t, seen, failure.name)
		require.NoError(t, story(be))
	}
	require.NoError(t, be.Close())
	require.Equal(t, before, c.live(), "left on the device")
	now, report := c.misuse()
	require.Equal(t, misused, now, report)
}

// A lost device is reported by type, closes its pool to new work, and gives
// everything back; then it and others can be opened again.
func TestLostDevice(t *testing.T) {
	c := standIn(t)
	before := c.live()
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 5)}))
	c.lose(0)
	require.ErrorIs(t, r.s.Sync(), backend.ErrLost)
	require.ErrorIs(t, r.plan(r.s, feed[buffer]{a, sequence(6, 1)}), backend.ErrLost)
	_, _, err := r.pool.Open(nil, OpenOptions{})
	require.ErrorIs(t, err, backend.ErrLost)
	_, err = a.Fork()
	require.ErrorIs(t, err, backend.ErrLost)
	require.ErrorIs(t, a.Shift(r.s, 0, 1), backend.ErrLost)
	require.NoError(t, a.Release())
	_ = r.pool.Close() // its memory cannot be freed one by one any more
	require.NoError(t, r.be.Close())
	require.Equal(t, before, c.live())
	c.restore(0)

	kind, _, _ := strings.Cut(deviceName(), ":")
	for _, name := range []string{kind + ":1", deviceName()} {
		be, err := backend.Open(name)
		require.NoError(t, err)
		require.NoError(t, story(be))
		require.NoError(t, be.Close())
	}
}
