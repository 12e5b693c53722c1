package kvcache

import (
	"errors"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// sinksAndRecent are the first and the last of n tokens.
func sinksAndRecent(n, sinks, recent int) [][]int {
	return [][]int{append(sequenceOf(n)[:sinks:sinks], sequenceOf(n)[n-recent:]...)}
}

// chosen are the ids that a list keeps.
func chosen(ids []uint32, list []int) []uint32 {
	var out []uint32
	for _, i := range list {
		out = append(out, ids[i])
	}
	return out
}

func TestKeepRefuses(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 7)}))
	before := r.stats()
	for name, kept := range map[string][][]int{
		"no list":            {},
		"as many as neither": {{0}, {0}, {0}},
		"unequal lengths":    {{0, 1}, {0}},
		"falling":            {{0, 2, 1}},
		"twice":              {{0, 1, 1}},
		"negative":           {{-1, 0}},
		"beyond the end":     {{0, 7}},
		"in the second list": {{0, 1}, {6, 7}},
	} {
		require.ErrorIs(t, a.Retain(r.s, kept, RetainOptions{}), backend.ErrArgument{}, name)
		require.ErrorIs(t, a.Retain(r.s, kept, RetainOptions{Reposition: true}), backend.ErrArgument{}, name)
	}
	require.ErrorIs(t, a.Retain(r.s, nil, RetainOptions{}), backend.ErrArgument{})
	require.ErrorIs(t, a.Retain(nil, [][]int{{0}}, RetainOptions{}), backend.ErrArgument{})
	_, err := a.Positions(nil, 2)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(8, 1)}))
	require.ErrorIs(t, a.Retain(r.s, [][]int{{0}}, RetainOptions{}), ErrBusy)
	require.NoError(t, r.step.Reset())
	after := r.stats()
	after.Peak = before.Peak
	require.Equal(t, before, after)
	r.expect(r.s, a, tokens(sequence(1, 7)...))
	require.NoError(t, a.Release())
	require.ErrorIs(t, a.Retain(r.s, [][]int{{}}, RetainOptions{}), ErrReleased)
	r.close()

	cfg := small(Paged)
	cfg.Model.RoPE = nil
	r = deviceRig(t, cfg)
	a = r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 7)}))
	require.ErrorIs(t, a.Retain(r.s, [][]int{{0, 6}}, RetainOptions{Reposition: true}), backend.ErrUnsupported{})
	require.NoError(t, a.Retain(r.s, [][]int{{0, 6}}, RetainOptions{}))
	r.expectContent(r.s, a, kept(sequence(1, 7), [][]int{{0, 6}}, RetainOptions{}))
	require.NoError(t, a.Release())
	r.close()
}

// kept is what two layers have after a Keep.
func kept(ids []uint32, lists [][]int, o RetainOptions) *history {
	h := newHistory(2)
	h.add(ids)
	h.keep(lists, o)
	return h
}

// A Keep that fails before it has changed anything in place leaves the sequence, its
// blocks and its reservation as they were; afterwards the sequence can only be
// released, and says so.
func TestKeepFailure(t *testing.T) {
	lists := [][]int{{0, 2, 5, 6, 10}, {1, 2, 3, 9, 10}}
	for _, c := range []struct {
		op    backendtest.Op
		after int
		lost  bool // the content
	}{
		{backendtest.OpAlloc, 0, false}, {backendtest.OpAlloc, 3, false}, {backendtest.OpUpload, 0, false}, {backendtest.OpUpload, 5, false}, {backendtest.OpWait, 0, false},
		{backendtest.OpCopyBlocks, 0, false}, {backendtest.OpCopyBlocks, 1, false}, {backendtest.OpMoveSlots, 0, false}, {backendtest.OpMoveSlots, 1, true},
		{backendtest.OpRotate, 0, true}, {backendtest.OpRotate, 1, true}, {backendtest.OpRecord, 0, true},
	} {
		r, dev, be := lateRig(t, small(Paged))
		s2, err := dev.NewStream()
		require.NoError(t, err)
		a := r.open()
		require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 11)}))
		b, err := a.Fork()
		require.NoError(t, err)
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, 24}))
		before := r.stats()
		dev.failOn(c.op, c.after)
		o := RetainOptions{Reposition: true}
		require.ErrorIs(t, a.Retain(s2, lists, o), errBoom, c.op)
		dev.SetFault(nil)
		after := r.stats()
		after.Peak = before.Peak
		require.Equal(t, before, after, "%s after %d", c.op, c.after)
		r.expect(r.s, b, tokens(sequence(1, 11)...))
		if c.lost {
			require.ErrorIs(t, a.Truncate(0), errBoom)
		} else {
			r.expectHistory(r.s, a, kept(sequence(1, 11), [][]int{sequenceOf(11)}, RetainOptions{}))
			require.NoError(t, a.Retain(s2, lists, o))
			r.expectHistory(s2, a, kept(sequence(1, 11), lists, o))
			r.expect(r.s, b, tokens(sequence(1, 11)...))
		}
		require.NoError(t, errors.Join(a.Release(), b.Release(), s2.Sync()))
		closeLate(t, r, dev, be)
	}
}

// Of sinks and a recent window that fall on block borders no slot is moved, although forks
// share them, and nothing is copied: the blocks between them go back to the pool.
func TestKeepOfWholeBlocksMovesNothing(t *testing.T) {
	for _, policy := range []prefix.Policy{prefix.Off, prefix.Adaptive} {
		cfg := small(Paged)
		cfg.Memory.Prefix = policy
		r, dev, be := lateRig(t, cfg)
		a := r.open()
		require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 38)}))
		list := sinksAndRecent(38, 4, 10) // 28 to 38: two blocks and a half
		n := dev.counted()
		require.NoError(t, a.Retain(r.s, list, RetainOptions{}))
		require.Zero(t, n[backendtest.OpMoveSlots]+n[backendtest.OpCopyBlocks]+n[backendtest.OpRotate])
		dev.SetFault(nil)
		require.NoError(t, r.s.Sync())
		require.Equal(t, 4, r.stats().Held, policy)
		r.expectHistory(r.s, a, kept(sequence(1, 38), list, RetainOptions{}))

		b, err := a.Fork()
		require.NoError(t, err)
		n = dev.counted()
		require.NoError(t, b.Retain(r.s, sinksAndRecent(14, 4, 6), RetainOptions{}))
		require.Zero(t, n[backendtest.OpMoveSlots]+n[backendtest.OpCopyBlocks]+n[backendtest.OpRotate])
		n = dev.counted()
		require.NoError(t, a.Retain(r.s, [][]int{sequenceOf(14)}, RetainOptions{}), "all of them")
		require.Empty(t, n)
		dev.SetFault(nil)
		r.expectContent(r.s, a, kept(sequence(1, 38), list, RetainOptions{}))
		require.NoError(t, errors.Join(a.Release(), b.Release()))
		closeLate(t, r, dev, be)
	}
}

// A Keep that lacks blocks for copies changes nothing.
func TestKeepOutOfBlocks(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks, cfg.Memory.Prefix = 4, prefix.Off
	r := deviceRig(t, cfg)
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 12)}))
	b, err := a.Fork()
	require.NoError(t, err)
	before := r.stats()
	for _, o := range []RetainOptions{{}, {Reposition: true}} {
		require.ErrorIs(t, a.Retain(r.s, [][]int{{1, 2, 3, 4, 6, 8}}, o), ErrOutOfBlocks{Need: 2, Free: 1})
	}
	require.Equal(t, before, r.stats())
	require.Equal(t, 12, a.NextPosition())
	r.expect(r.s, a, tokens(sequence(1, 12)...))
	require.NoError(t, a.Retain(r.s, [][]int{{0, 1, 3}}, RetainOptions{}), "one block is copied, two go")
	r.expect(r.s, b, tokens(sequence(1, 12)...))
	require.NoError(t, b.Release())
	require.Equal(t, 1, r.stats().Held)
	require.NoError(t, a.Release())
	r.close()
}

// A sequence that keeps sinks and a window, repositioned, goes on without end in the
// positions that the rotary embedding has; one that does not comes to an end, which says
// so, and can be repositioned then.
func TestKeepStreamsWithoutEnd(t *testing.T) {
	cfg := small(Paged)
	r := deviceRig(t, cfg)
	a := r.open()
	h := newHistory(cfg.Model.Layers)
	next := 1
	grow := func(n int) error {
		ids := sequence(next, n)
		if err := r.feed(feed[buffer]{a, ids}); err != nil {
			return err
		}
		next += n
		h.add(ids)
		return nil
	}
	keep := func(o RetainOptions) {
		list := sinksAndRecent(h.len(), 4, 9)
		require.NoError(t, a.Retain(r.s, list, o))
		h.keep(list, o)
		require.LessOrEqual(t, a.NextPosition(), cfg.Memory.Capacity)
	}
	require.NoError(t, grow(16))
	for range 30 {
		keep(RetainOptions{Reposition: true})
		require.NoError(t, grow(3))
		require.LessOrEqual(t, r.stats().Held, 4)
	}
	r.expectHistory(r.s, a, h)
	for {
		keep(RetainOptions{})
		if err := grow(3); err != nil {
			require.ErrorIs(t, err, ErrCapacity{Have: a.NextPosition() + 3, Max: cfg.Memory.Capacity, Positions: true})
			require.ErrorContains(t, err, "Reposition")
			break
		}
	}
	r.expectHistory(r.s, a, h)
	keep(RetainOptions{Reposition: true})
	require.NoError(t, grow(3))
	r.expectHistory(r.s, a, h)
	require.NoError(t, a.Release())
	r.close()
}

// New tokens are rotated by the positions that Retain has left, not by how many tokens
// there are.
func TestKeptPositionsAreTheNewTokens(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 11)}))
	require.NoError(t, a.Retain(r.s, [][]int{{0, 1, 8, 9, 10}}, RetainOptions{}))
	require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(12, 2)}))
	c := r.pool.Config()
	for l := range c.Model.Layers {
		q := r.vector(r.s, make([]float32, 2*c.Model.QHeads*c.Model.HeadDim))
		k := r.vector(r.s, rows(sequence(12, 2), l, c.Model.KVHeads, c.Model.HeadDim, false))
		v := r.vector(r.s, rows(sequence(12, 2), l, c.Model.KVHeads, c.Model.VHeadDim, true))
		require.NoError(t, r.step.Append(l, rotated(q, k, v)))
		r.free(q, k, v)
	}
	require.NoError(t, r.step.Commit())
	r.expect(r.s, a, append(tokens(1, 2, 9, 10, 11), token{12, 11}, token{13, 12}))
	require.Equal(t, 13, a.NextPosition())
	require.NoError(t, a.Release())
	r.close()
}

// The list of positions is the sequence's own: neither what the caller does with his
// lists nor a fork changes it.
func TestKeptListsAreCopied(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 11)}))
	lists := [][]int{{0, 5, 10}, {1, 2, 3}}
	h := kept(sequence(1, 11), [][]int{slices.Clone(lists[0]), slices.Clone(lists[1])}, RetainOptions{})
	require.NoError(t, a.Retain(r.s, lists, RetainOptions{}))
	lists[0][1], lists[1][0] = 9, 9
	b, err := a.Fork()
	require.NoError(t, err)
	require.NoError(t, b.Shift(r.s, 0, 1))
	require.NoError(t, r.feed(feed[buffer]{b, sequence(20, 2)}))
	r.expectHistory(r.s, a, h)
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	r.close()
}
