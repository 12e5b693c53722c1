package kvcache

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/stretchr/testify/require"
)

// A step that fails while it is put behind earlier ones does not forget them:
// blocks that those still use are not handed out.
func TestFailedPlanKeepsFences(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	s2, err := dev.NewStream()
	require.NoError(t, err)
	a, b := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 5)}, feed[buffer]{b, sequence(6, 1)}))
	other := r.pool.NewBatch()
	require.NoError(t, errors.Join(other.Add(a, []uint32{7}), other.Add(b, []uint32{8})))
	dev.failOn(backendtest.OpWait, 0)
	require.ErrorIs(t, other.Plan(s2), errBoom)
	dev.SetFault(nil)
	require.NoError(t, other.Close())
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	require.Equal(t, 3, r.stats().Held, "the first step is still on the device")
	closeLate(t, r, dev, be)
}

// lateCache is a stand-alone cache on a device that works late, and two streams.
func lateCache(t *testing.T, be backend.Backend[buffer], cfg Config, seed uint64) (*lateDevice, *Standalone[buffer], [2]backend.Stream) {
	dev := newLateDevice(be, backendtest.LateOptions{Seed: seed, OnlyWaits: true})
	var s [2]backend.Stream
	for i := range s {
		var err error
		s[i], err = dev.NewStream()
		require.NoError(t, err)
	}
	c, err := NewStandalone(dev, cfg)
	require.NoError(t, err)
	return dev, c, s
}

// counting is n numbers from first on.
func counting(first, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(first + i)
	}
	return out
}

// A Gather on one stream and an Attend on another both hold the blocks: what is
// written afterwards waits for both.
func TestAttendKeepsFenceOfGather(t *testing.T) {
	be := openDevice(t)
	for _, layout := range []Layout{Contiguous, Paged} {
		cfg := lone(layout, 8)
		token := cfg.Model.KVHeads * cfg.Model.HeadDim // elements of its key
		wide := 2 * cfg.Model.QHeads * max(cfg.Model.HeadDim, cfg.Model.VHeadDim)
		for seed := range uint64(20) {
			dev, c, s := lateCache(t, be, cfg, seed)
			vector := func(first int) buffer {
				b, err := backend.AllocFrom(dev, s[0], backend.F32, counting(first, wide))
				require.NoError(t, err)
				return b
			}
			was, now, out, k, v := vector(1), vector(5000), vector(0), vector(0), vector(0)
			require.NoError(t, s[0].Sync())
			require.NoError(t, c.Append(s[0], kv(was, was), 1))
			require.NoError(t, c.Gather(s[1], k, v))
			require.NoError(t, c.Attend(s[0], attending(was, out), 1))
			require.NoError(t, c.Reset())
			require.NoError(t, c.Append(s[0], kv(now, now), 1))
			require.NoError(t, s[0].Sync())
			got := make([]float32, token)
			require.NoError(t, backend.Download(dev, s[1], got, k, 0))
			require.Equal(t, counting(1, token), got, "%s, seed %d", layout, seed)
			for _, b := range []buffer{was, now, out, k, v} {
				require.NoError(t, dev.Free(b))
			}
			require.NoError(t, errors.Join(c.Release(), dev.late.Drain()))
			require.Zero(t, be.Info().Buffers)
		}
	}
	require.NoError(t, be.Close())
}

// A block table on its way to the device does not overtake a later one, whichever
// stream is ahead.
func TestLayersIsFenced(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	s2, err := dev.NewStream()
	require.NoError(t, err)
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 3)}))
	b, err := a.Fork()
	require.NoError(t, err)
	require.NoError(t, r.s.Sync())
	_, err = b.Layers(r.s)
	require.NoError(t, err)
	require.NoError(t, dev.late.Hold(dev.under(r.s), true)) // it runs only where the device is made to wait for it …
	ids := sequence(4, 7)                                   // the first goes into a shared block: the table changes from its start
	require.NoError(t, r.plan(s2, feed[buffer]{b, ids}))
	r.write(s2, feed[buffer]{b, ids})
	require.NoError(t, r.step.Commit())
	e, err := dev.NewEvent()
	require.NoError(t, err)
	dev.SetFault(func(c backendtest.Call) error {
		if c.Op == backendtest.OpGather { // … or just before the table is read
			return errors.Join(r.s.Record(e), s2.Wait(e))
		}
		return nil
	})
	r.expect(s2, b, tokens(sequence(1, 10)...))
	dev.SetFault(nil)
	require.NoError(t, errors.Join(e.Close(), dev.late.Hold(dev.under(r.s), false)))
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	closeLate(t, r, dev, be)
}

// Reserve waits for blocks on their way back as Plan does, before it says that
// there are too few.
func TestReserveWaitsForRetiredBlocks(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 2
	r, dev, be := lateRig(t, cfg)
	a, b := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 5)}))
	require.NoError(t, a.Release())
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{b, 8}))
	require.ErrorIs(t, r.pool.Reserve(Reservation[buffer]{b, 9}), ErrOutOfBlocks{Need: 1, Free: 0})
	require.NoError(t, b.Release())
	closeLate(t, r, dev, be)
}

// Nothing new is enqueued on a device that was lost.
func TestLostDeviceTakesNoWork(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	a, b := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 5)}))
	dev.SetFault(enqueued(func(backendtest.Op) error { return backend.ErrLost }))
	require.ErrorIs(t, r.plan(r.s, feed[buffer]{b, sequence(1, 5)}), backend.ErrLost)
	dev.SetFault(enqueued(func(op backendtest.Op) error { t.Errorf("%s was enqueued", op); return nil }))
	require.ErrorIs(t, a.Shift(r.s, 0, 4), backend.ErrLost)
	_, err := a.Layers(r.s)
	require.ErrorIs(t, err, backend.ErrLost)
	dev.SetFault(nil)
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	closeLate(t, r, dev, be)
}

// When a step that cannot be fenced waits for its stream instead, an error that
// the stream had of its caller's work is passed on.
func TestWaitPassesOnErrors(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	a := r.open()
	require.NoError(t, dev.late.Enqueue(dev.under(r.s), func(backend.Stream) error { return errBoom }))
	require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(1, 5)}))
	dev.SetFault(backendtest.After(0, errors.New("no record"), backendtest.OpRecord))
	require.Error(t, r.step.Commit())
	require.ErrorIs(t, r.step.Reset(), errBoom)
	dev.SetFault(nil)
	require.NoError(t, r.step.Reset())
	require.NoError(t, a.Release())
	closeLate(t, r, dev, be)
}

// Several steps on their way, of forks on two streams, each attend over the
// tokens of their own sequence: neither blocks nor index vectors are used again
// too early.
func TestAttendOnLateStreams(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		for seed := range uint64(25) {
			attendLate(t, layout, seed)
		}
	}
}

func attendLate(t *testing.T, layout Layout, seed uint64) {
	be := openDevice(t)
	dev := newLateDevice(be, backendtest.LateOptions{Seed: seed})
	rng := rand.New(rand.NewPCG(seed, 2))
	cfg := small(layout)
	cfg.Model.Layers = 1
	r := newRig(t, dev, cfg)
	s2, err := dev.NewStream()
	require.NoError(t, err)
	streams := [2]backend.Stream{r.s, s2}
	root := r.open()
	require.NoError(t, r.feed(feed[buffer]{root, sequence(1, 6)}))
	child, err := root.Fork()
	require.NoError(t, err)
	seqs := [2]*Sequence[buffer]{root, child}
	want := [2][]uint32{sequence(1, 6), sequence(1, 6)}
	q := r.vector(r.s, make([]float32, 3*cfg.Model.QHeads*cfg.Model.HeadDim)) // zeros: every key weighs the same
	require.NoError(t, r.s.Sync())
	type result struct {
		out    buffer
		stream backend.Stream
		seen   []uint32
		rows   int
	}
	var results []result
	for i := range 12 {
		which := rng.IntN(2)
		s, seq := streams[rng.IntN(2)], seqs[which]
		if i%4 == 3 {
			require.NoError(t, seq.Truncate(5))
			want[which] = want[which][:5:5]
		}
		ids := sequence(100*(i+1), 1+rng.IntN(3))
		want[which] = append(want[which][:len(want[which]):len(want[which])], ids...)
		require.NoError(t, r.plan(s, feed[buffer]{seq, ids}))
		r.write(s, feed[buffer]{seq, ids})
		out := r.vector(s, make([]float32, len(ids)*cfg.Model.QHeads*cfg.Model.VHeadDim))
		require.NoError(t, r.step.Attend(0, attending(q, out)))
		require.NoError(t, r.step.Commit())
		results = append(results, result{out, s, want[which], len(ids)})
	}
	for i, res := range results {
		got := make([]float32, res.out.Len())
		require.NoError(t, backend.Download(dev, res.stream, got, res.out, 0))
		for row := range res.rows {
			seen := res.seen[:len(res.seen)-res.rows+row+1]
			mean := 0.0
			for _, id := range seen {
				mean += float64(element(id, 0, 0, 0, true)) / float64(len(seen))
			}
			require.InDelta(t, mean, got[row*cfg.Model.QHeads*cfg.Model.VHeadDim], 1e-5, "%s, seed %d, step %d", layout, seed, i)
		}
		require.NoError(t, r.be.Free(res.out))
	}
	require.NoError(t, errors.Join(root.Release(), child.Release(), r.be.Free(q), s2.Sync()))
	closeLate(t, r, dev, be)
}

// A contiguous cache that grows on another stream than it was written on takes
// its tokens along.
func TestStandaloneGrowsOnAnotherStream(t *testing.T) {
	be := openDevice(t)
	cfg := lone(Contiguous, 1000)
	kToken, vToken := cfg.Model.KVHeads*cfg.Model.HeadDim, cfg.Model.KVHeads*cfg.Model.VHeadDim
	x := counting(1, max(kToken, vToken)*firstCapacity)
	for seed := range uint64(10) {
		dev, c, s := lateCache(t, be, cfg, seed)
		b, err := backend.AllocFrom(dev, s[0], backend.F32, x)
		require.NoError(t, err)
		require.NoError(t, s[0].Sync())
		require.NoError(t, c.Append(s[0], kv(b, b), firstCapacity))
		require.NoError(t, c.Append(s[1], kv(b, b), 1))
		require.Equal(t, 2*firstCapacity, c.Capacity)
		n := firstCapacity + 1
		k, err := dev.Alloc(backend.F32, n*kToken)
		require.NoError(t, err)
		v, err := dev.Alloc(backend.F32, n*vToken)
		require.NoError(t, err)
		require.NoError(t, c.Gather(s[0], k, v))
		got := make([]float32, n*kToken)
		require.NoError(t, backend.Download(dev, s[0], got, k, 0))
		for h := range cfg.Model.KVHeads {
			for i := range n {
				want := x[i%firstCapacity*kToken+h*cfg.Model.HeadDim:][:cfg.Model.HeadDim]
				require.Equal(t, want, got[(h*n+i)*cfg.Model.HeadDim:][:cfg.Model.HeadDim], "head %d token %d", h, i)
			}
		}
		require.NoError(t, errors.Join(c.Release(), dev.Free(b), dev.Free(k), dev.Free(v), dev.late.Drain()))
		require.Zero(t, be.Info().Buffers)
	}
	require.NoError(t, be.Close())
}

// Blocks stay held behind work of the runner's own that it fenced.
func TestFenceOfTheRunnersOwnWork(t *testing.T) {
	r, dev, be := lateRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 5)}))
	require.NoError(t, r.s.Sync())
	other, err := dev.NewStream()
	require.NoError(t, err)
	layers, err := a.Layers(other)
	require.NoError(t, err)
	require.NoError(t, other.Sync())
	require.NoError(t, dev.Copy(other, layers[0].K, 0, layers[0].K, 0, 1)) // the runner's kernel
	require.NoError(t, a.Fence(other))
	require.ErrorIs(t, a.Fence(nil), backend.ErrArgument{})
	require.NoError(t, a.Release())
	require.ErrorIs(t, a.Fence(other), ErrReleased)
	require.Equal(t, 2, r.stats().Held)
	require.NoError(t, other.Sync())
	require.Zero(t, r.stats().Held)
	closeLate(t, r, dev, be)
}
