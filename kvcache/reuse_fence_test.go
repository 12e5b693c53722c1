package kvcache

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// reuseLate is a late rig with a second stream. Content is the same in every layer.
func reuseLate(t *testing.T, blocks int, seed uint64) (*rig[buffer], *lateDevice, backend.Stream, func()) {
	be := openDevice(t)
	dev := newLateDevice(be, backendtest.LateOptions{Seed: seed, OnlyWaits: true})
	cfg := small(Paged)
	cfg.Model.Layers, cfg.Memory.Blocks = 1, blocks
	r := newRig(t, dev, cfg)
	s2, err := dev.NewStream()
	require.NoError(t, err)
	return r, dev, s2, func() {
		t.Helper()
		require.NoError(t, s2.Sync())
		closeLate(t, r, dev, be)
	}
}

// What a step on one stream publishes is read on another one only behind that step,
// with nobody waiting on the host: whole blocks, and one that is copied first.
func TestReuseWaitsForTheWriter(t *testing.T) {
	for seed := range uint64(20) {
		for _, prompt := range [][]uint32{sequence(1, 9), append(sequence(1, 7), 60, 61)} {
			r, _, s2, done := reuseLate(t, 40, seed)
			a, _ := r.serve(sequence(1, 10), OpenOptions{})
			b, m := r.read(prompt, OpenOptions{})
			require.GreaterOrEqual(t, m.Cached, 7)
			require.NoError(t, r.on(s2).prefill(s2, b))
			for _, x := range []*reader[buffer]{b, a} {
				r.check(s2, x)
				require.NoError(t, x.seq.Release())
			}
			done()
		}
	}
}

// Two prompts that were computed side by side share from their commits on: who gave up
// his own block waits for the step that writes the other.
func TestSharedLaterWaitsForTheWriter(t *testing.T) {
	for seed := range uint64(20) {
		r, _, s2, done := reuseLate(t, 40, seed)
		a, _ := r.read(sequence(1, 9), OpenOptions{})
		b, _ := r.read(sequence(1, 9), OpenOptions{})
		require.NoError(t, r.prefill(r.s, a))
		require.NoError(t, r.on(s2).prefill(s2, b))
		require.Equal(t, a.numbers()[:2], b.numbers()[:2])
		require.NotEqual(t, a.numbers()[2], b.numbers()[2])
		require.NoError(t, r.pool.Check())
		r.check(s2, b)
		r.check(r.s, a)
		require.NoError(t, errors.Join(a.seq.Release(), b.seq.Release()))
		done()
	}
}

// E1: what is released with a step in flight can be found and taken again, and is not
// evicted before that step is done; with several steps ahead, not before the last.
func TestReleasedInFlight(t *testing.T) {
	r, dev, s2, done := reuseLate(t, 3, 3)
	a, _ := r.serve(sequence(1, 4), OpenOptions{})
	half, err := dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, r.s.Record(half))
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(5, 5)}))
	require.NoError(t, a.seq.Release())
	require.NoError(t, half.Sync())
	st := r.stats()
	require.Equal(t, [3]int{3, 3, 0}, [3]int{st.Held, st.Retired, st.Cached}, "the first of two steps is done")
	b, m := r.read(sequence(1, 9), OpenOptions{})
	require.Equal(t, 8, m.Cached, "also while it is on its way")
	require.Equal(t, 9, r.matched(sequence(1, 10), OpenOptions{}), "to its end")
	require.NoError(t, r.prefill(s2, b))
	r.check(s2, b)
	require.NoError(t, errors.Join(b.seq.Release(), s2.Sync()))
	st = r.stats()
	require.Equal(t, [3]int{0, 3, 0}, [3]int{st.Held, st.Cached, st.Free})
	c, _ := r.serve(sequence(50, 12), OpenOptions{}) // nothing in flight: all can go at once
	r.check(r.s, c)
	require.Zero(t, r.matched(sequence(1, 9), OpenOptions{}))
	require.NoError(t, c.seq.Release())
	done()
}

// E2: a block of which a reader has only the beginning is copied when he writes. Both
// ends of the copy are held until it is done, and each is given up once.
func TestPartialBlockIsHeldWhileCopied(t *testing.T) {
	r, _, _, done := reuseLate(t, 40, 5)
	r.cache(sequence(1, 8), OpenOptions{})
	b, m := r.read([]uint32{1, 2, 3, 4, 5, 6, 9, 9, 9}, OpenOptions{})
	require.Equal(t, 6, m.Cached)
	old := b.numbers()[1]
	require.NoError(t, r.prefill(r.s, b))
	require.NotEqual(t, old, b.numbers()[1])
	st := r.stats()
	require.Equal(t, [2]int{4, 1}, [2]int{st.Held, st.Retired})
	require.NoError(t, r.s.Sync())
	st = r.stats()
	require.Equal(t, [3]int{3, 0, 1}, [3]int{st.Held, st.Retired, st.Cached})
	r.check(r.s, b)
	c, m := r.read(sequence(1, 9), OpenOptions{})
	require.Equal(t, 8, m.Cached)
	r.check(r.s, c)
	require.NoError(t, errors.Join(b.seq.Release(), c.seq.Release()))
	done()
}

// A step that the device failed at leaves nothing in the tree, nor does what was
// computed from it, however the failure is noticed. The pool goes on.
func TestFailedStepIsForgotten(t *testing.T) {
	notice := map[string]func(r *rig[buffer]) error{
		"statistics": func(r *rig[buffer]) error { _, err := r.pool.Stats(); return err },
		"open":       func(r *rig[buffer]) error { _, _, err := r.pool.Open(sequence(1, 9), OpenOptions{}); return err },
		"full pool": func(r *rig[buffer]) error {
			x, _ := r.read(nil, OpenOptions{})
			err := r.run(r.s, part[buffer]{x, sequence(70, 24)}) // has to wait for the failed one
			return errors.Join(err, x.seq.Release())
		},
	}
	for name, notice := range notice {
		r, dev, s2, done := reuseLate(t, 6, 5)
		a, _ := r.read(sequence(1, 9), OpenOptions{})
		require.NoError(t, r.prefill(s2, a))
		b, m := r.read(sequence(1, 13), OpenOptions{})
		require.Equal(t, 8, m.Cached)
		require.NoError(t, r.prefill(r.s, b))
		require.Equal(t, 12, r.matched(sequence(1, 14), OpenOptions{}))
		require.NoError(t, errors.Join(a.seq.Release(), b.seq.Release()))
		dev.failEvents(s2, errBoom)
		if name != "full pool" {
			require.NoError(t, s2.Sync())
		}
		require.ErrorIs(t, notice(r), errBoom, name)
		dev.SetFault(nil)
		require.NoError(t, errors.Join(r.s.Sync(), s2.Sync()))
		r.stats()
		require.Zero(t, r.matched(sequence(1, 14), OpenOptions{}), name)
		c, m := r.serve(sequence(1, 13), OpenOptions{})
		require.Zero(t, m.Cached)
		r.check(r.s, c)
		require.NoError(t, c.seq.Release())
		done()
	}
}

// A sequence that shares what the device then failed to write is told so: the step was
// somebody else's. One that shares nothing of it goes on.
func TestReaderOfFailedStepIsTold(t *testing.T) {
	r, dev, s2, done := reuseLate(t, 40, 5)
	a, _ := r.read(sequence(1, 9), OpenOptions{})
	require.NoError(t, r.prefill(s2, a))
	b, m := r.read(sequence(1, 13), OpenOptions{})
	require.Equal(t, 8, m.Cached)
	c, _ := r.serve(sequence(50, 9), OpenOptions{})
	require.NoError(t, r.step.Add(b.seq, sequence(9, 1)))
	dev.failEvents(s2, errBoom)
	require.NoError(t, errors.Join(r.s.Sync(), s2.Sync()))
	_, err := r.pool.Stats()
	require.ErrorIs(t, err, errBoom)
	dev.SetFault(nil)
	require.ErrorIs(t, r.step.Plan(r.s), errBoom, "it was added before")
	require.NoError(t, r.step.Reset())
	require.ErrorIs(t, r.step.Add(b.seq, sequence(9, 1)), errBoom)
	_, err = b.seq.Fork()
	require.ErrorIs(t, err, errBoom)
	require.NoError(t, r.run(r.s, part[buffer]{c, sequence(90, 1)}))
	r.check(r.s, c)
	require.NoError(t, errors.Join(a.seq.Release(), b.seq.Release(), c.seq.Release()))
	done()
}

// A block of which a failed step wrote a part is not found, and its sequence is told, whichever step filled it.
func TestFailedPartOfABlock(t *testing.T) {
	for failing := range 3 { // a step of three; 2: none of the two that fill a block
		r, dev, s2, done := reuseLate(t, 40, 5)
		a, _ := r.read(nil, OpenOptions{})
		for i, tokens := range [][]uint32{sequence(1, 2), sequence(3, 2), sequence(5, 1)} {
			s := r.s
			if i == failing {
				s = s2
			}
			require.NoError(t, r.run(s, part[buffer]{a, tokens}))
		}
		dev.failEvents(s2, errBoom)
		require.NoError(t, errors.Join(r.s.Sync(), s2.Sync()))
		_, err := r.pool.Stats()
		dev.SetFault(nil)
		if failing < 2 {
			require.ErrorIs(t, err, errBoom)
			require.ErrorIs(t, r.step.Add(a.seq, sequence(9, 1)), errBoom)
			require.Zero(t, r.matched(sequence(1, 9), OpenOptions{}), "step %d", failing)
		} else {
			require.NoError(t, err)
			require.Equal(t, 4, r.matched(sequence(1, 9), OpenOptions{}))
		}
		_ = a.seq.Release() // an error of the device that it meets
		done()
	}
}

// Who found the beginning of a block that others then failed to write has no copy of it.
func TestCopyOfFailedBlock(t *testing.T) {
	r, dev, s2, done := reuseLate(t, 40, 5)
	a, _ := r.read(nil, OpenOptions{})
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(1, 4)}))
	require.NoError(t, r.run(s2, part[buffer]{a, sequence(5, 4)}))
	prompt := []uint32{1, 2, 3, 4, 5, 6, 9, 9, 9}
	b, m := r.read(prompt, OpenOptions{})
	require.Equal(t, 6, m.Cached)
	require.NoError(t, r.prefill(r.s, b))
	require.Equal(t, 8, r.matched(prompt, OpenOptions{}))
	dev.failEvents(s2, errBoom)
	require.NoError(t, errors.Join(r.s.Sync(), s2.Sync()))
	_, err := r.pool.Stats()
	require.ErrorIs(t, err, errBoom)
	dev.SetFault(nil)
	require.Equal(t, 4, r.matched(prompt, OpenOptions{}))
	require.ErrorIs(t, r.step.Add(b.seq, sequence(9, 1)), errBoom)
	require.NoError(t, errors.Join(a.seq.Release(), b.seq.Release()))
	done()
}

// So it is with a sequence that found the whole block and was truncated within it.
func TestCopyOfFailedBlockThatWasCut(t *testing.T) {
	r, dev, s2, done := reuseLate(t, 40, 5)
	a, _ := r.read(nil, OpenOptions{})
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(1, 4)}))
	require.NoError(t, r.run(s2, part[buffer]{a, sequence(5, 4)}))
	b, m := r.read(sequence(1, 9), OpenOptions{})
	require.Equal(t, 8, m.Cached)
	require.NoError(t, b.seq.Truncate(6))
	prompt := []uint32{1, 2, 3, 4, 5, 6, 9, 9, 9}
	b.tokens, b.want, b.rest = prompt[:6:6], b.plain(6), prompt[6:]
	require.NoError(t, r.prefill(r.s, b))
	require.Equal(t, 8, r.matched(prompt, OpenOptions{}))
	dev.failEvents(s2, errBoom)
	require.NoError(t, errors.Join(r.s.Sync(), s2.Sync()))
	_, err := r.pool.Stats()
	require.ErrorIs(t, err, errBoom)
	dev.SetFault(nil)
	require.Equal(t, 4, r.matched(prompt, OpenOptions{}))
	require.ErrorIs(t, r.step.Add(b.seq, sequence(9, 1)), errBoom)
	require.NoError(t, errors.Join(a.seq.Release(), b.seq.Release()))
	done()
}

// Releasing is not undone by an error of the device that it happens to notice.
func TestReleaseNoticesFailure(t *testing.T) {
	r, dev, s2, done := reuseLate(t, 40, 5)
	a, _ := r.read(sequence(1, 9), OpenOptions{})
	b, _ := r.serve(sequence(50, 9), OpenOptions{})
	require.NoError(t, r.prefill(s2, a))
	dev.failEvents(s2, errBoom)
	require.NoError(t, errors.Join(r.s.Sync(), s2.Sync()))
	require.ErrorIs(t, b.seq.Truncate(2), errBoom)
	require.Equal(t, 2, b.seq.Len())
	require.NoError(t, errors.Join(a.seq.Release(), b.seq.Release()))
	require.ErrorIs(t, b.seq.Release(), ErrReleased)
	dev.SetFault(nil)
	done()
}

// A device that is lost empties the tree and closes the pool to new work; steps that
// were planned before publish nothing any more.
func TestLostDeviceForgetsPrefixes(t *testing.T) {
	r, dev, s2, done := reuseLate(t, 40, 5)
	r.cache(sequence(1, 9), OpenOptions{})
	a, _ := r.read(sequence(1, 9), OpenOptions{})
	require.NoError(t, r.prefill(s2, a))
	b, _ := r.read(sequence(50, 9), OpenOptions{})
	open := part[buffer]{b, sequence(50, 9)}
	require.NoError(t, r.enqueue(r.s, open))
	require.NoError(t, a.seq.Release())
	dev.failEvents(s2, backend.ErrLost)
	require.NoError(t, s2.Sync())
	_, err := r.pool.Stats()
	require.ErrorIs(t, err, backend.ErrLost)
	require.Zero(t, r.matched(sequence(1, 9), OpenOptions{}))
	_, _, err = r.pool.Open(sequence(1, 9), OpenOptions{})
	require.ErrorIs(t, err, backend.ErrLost)
	_, err = r.pool.Pin(sequence(1, 9), 1, OpenOptions{})
	require.ErrorIs(t, err, backend.ErrLost)
	dev.SetFault(nil)
	require.NoError(t, r.committed(open))
	require.Zero(t, r.stats().Prefix.Blocks)
	require.NoError(t, b.seq.Release())
	done()
}

// Who shares a block only with a step in flight waits for that, and needs no copy.
func TestPlanWaitsForSharers(t *testing.T) {
	r, _, s2, done := reuseLate(t, 3, 5)
	a, _ := r.serve(sequence(1, 6), OpenOptions{})
	b, err := a.seq.Fork()
	require.NoError(t, err)
	require.NoError(t, b.Fence(s2))
	require.NoError(t, b.Release())
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(7, 5)}))
	r.check(r.s, a)
	require.NoError(t, a.seq.Release())
	done()
}

// A fence stays its step's until nobody holds it, also where a step is done before its
// blocks are published: two steps never share one.
func TestFenceOfAFastStep(t *testing.T) {
	r := deviceRig(t, small(Paged)) // on a CPU a step is done when it is enqueued
	r.cache(sequence(1, 4), OpenOptions{})
	for i := range 3 { // the first block is known, the second is new, of a sequence that had to compute both
		a, _ := r.read(sequence(1, 4), OpenOptions{})
		require.NoError(t, a.seq.Truncate(0))
		a.tokens, a.want, a.rest = nil, nil, append(sequence(1, 4), sequence(100*(i+1), 4)...)
		require.NoError(t, r.prefill(r.s, a))
		require.NoError(t, r.pool.Check())
		require.NoError(t, a.seq.Release())
		require.NoError(t, r.pool.Check())
	}
	r.close()
}

// An expired lease keeps nobody from its blocks, and Clear does not wait for those
// that the device has finished with.
func TestExpiredLeaseMakesRoom(t *testing.T) {
	r, _, _, done := reuseLate(t, 4, 5)
	r.cache(sequence(1, 8), OpenOptions{})
	l, err := r.pool.Pin(sequence(1, 8), 1, OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 8, l.Match.Tokens)
	a, _ := r.read(nil, OpenOptions{})
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(50, 16)}), "all four blocks")
	require.ErrorIs(t, r.pool.Unpin(l), prefix.ErrLeaseEnded)
	require.NoError(t, a.seq.Release())
	require.ErrorIs(t, r.pool.Clear(false), prefix.ErrInUse{}, "the step is on the device")
	require.NoError(t, r.s.Sync())
	require.NoError(t, r.pool.Clear(false))
	done()
}

// So it is with groups, each of which has blocks of its own with what was published: whole entries, and one of which the beginning is copied.
func TestGroupsReuseWaitsForTheWriter(t *testing.T) {
	for seed := range uint64(20) {
		for _, prompt := range [][]uint32{sequence(1, 26), append(sequence(1, 23), 60, 61)} {
			be := openDevice(t)
			dev := newLateDevice(be, backendtest.LateOptions{Seed: seed, OnlyWaits: true})
			cfg := manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9}, config.Group{Layers: []int{1, 3}})
			cfg.Memory.RetainEvery = 1
			w := groupedOn(newRig(t, dev, cfg), seed)
			s2, err := dev.NewStream()
			require.NoError(t, err)
			a, _, err := w.pool.Open(nil, OpenOptions{})
			require.NoError(t, err)
			ids := sequence(1, 26)
			require.NoError(t, w.step.Add(a, ids))
			require.NoError(t, w.step.Plan(w.s))
			w.write(w.s, feed[buffer]{a, ids})
			require.NoError(t, w.step.Commit())
			require.NoError(t, a.Release())

			other := groupedOn(w.on(s2), seed)
			b, m := other.open(prompt)
			require.GreaterOrEqual(t, m.Cached, 20)
			require.NoError(t, other.run(ask{b, prompt[m.Cached:]}))
			require.NoError(t, errors.Join(b.seq.Release(), s2.Sync()))
			closeLate(t, w.rig, dev, be)
		}
	}
}
