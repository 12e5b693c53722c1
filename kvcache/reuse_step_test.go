package kvcache

import (
	"cmp"
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

func TestE4AbandonedStepPublishesNothing(t *testing.T) {
	r := reuseRig(t, 40)
	r.cache(sequence(1, 8), OpenOptions{})
	a, m := r.read(sequence(1, 8), OpenOptions{})
	require.Equal(t, 7, m.Cached)
	before, numbers := r.idle(), a.numbers()
	require.NoError(t, r.enqueue(r.s, part[buffer]{a, append([]uint32{8}, sequence(50, 9)...)}))
	require.NoError(t, r.step.Reset())
	after := r.idle()
	after.Peak = before.Peak
	require.Equal(t, before, after)
	require.Equal(t, numbers, a.numbers())
	require.NoError(t, r.prefill(r.s, a))
	r.drop(a)
	r.close()
}

func TestE5RejectedDraftCostsNothing(t *testing.T) {
	r := reuseRig(t, 40)
	a, _ := r.serve(sequence(1, 6), OpenOptions{})
	for range 5 { // a draft fills the block, is published, and rejected
		require.NoError(t, r.run(r.s, part[buffer]{a, sequence(90, 4)}))
		before := r.idle()
		numbers := a.numbers()[:2]
		require.NoError(t, a.seq.Truncate(6))
		a.tokens, a.want = a.tokens[:6], a.want[:6]
		st := r.idle()
		require.Equal(t, 2, st.Held)
		require.Less(t, st.Prefix.Blocks, before.Prefix.Blocks)
		require.NoError(t, r.run(r.s, part[buffer]{a, sequence(60, 1)}))
		require.Equal(t, numbers, a.numbers(), "no copy")
		require.NoError(t, a.seq.Truncate(6))
		a.tokens, a.want = a.tokens[:6], a.want[:6]
	}
	// If somebody else reads the draft, he keeps it.
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(90, 4)}))
	b, m := r.read(append(sequence(1, 6), 90, 91, 92), OpenOptions{})
	require.Equal(t, 8, m.Cached)
	require.NoError(t, a.seq.Truncate(6))
	a.tokens, a.want = a.tokens[:6], a.want[:6]
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(60, 4)}))
	require.NotEqual(t, a.numbers()[1], b.numbers()[1])
	r.drop(a, b)
	r.close()
}

// A pool that is exactly full serves what it would serve without reuse, and its
// reservations hold whatever part of a prompt was found.
func TestFullPoolServesWhatFits(t *testing.T) {
	r := reuseRig(t, 2)
	r.cache(sequence(1, 8), OpenOptions{})
	a, m := r.serve(sequence(1, 8), OpenOptions{})
	require.Equal(t, 7, m.Cached)
	r.drop(a)

	b, m := r.read(sequence(1, 7), OpenOptions{})
	require.Equal(t, 6, m.Cached)
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{b.seq, 8}), "there is no block for a copy")
	require.NoError(t, r.prefill(r.s, b))
	b2, err := b.seq.Fork()
	require.NoError(t, err)
	require.ErrorIs(t, r.run(r.s, part[buffer]{b, []uint32{9}}), ErrOutOfBlocks{Need: 1, Free: 0})
	require.NoError(t, b2.Release())
	require.NoError(t, r.run(r.s, part[buffer]{b, []uint32{9}}))
	r.drop(b)
	r.close()

	// Several that fork from a part of a block: one of them may keep it.
	r = reuseRig(t, 3)
	r.cache(sequence(1, 8), OpenOptions{})
	c, _ := r.read(sequence(1, 8), OpenOptions{})
	d := *c
	d.seq, err = c.seq.Fork()
	require.NoError(t, err)
	require.NoError(t, cmp.Or(c.seq.Truncate(7), d.seq.Truncate(7)), "neither goes on with the prompt")
	require.NoError(t, r.run(r.s, part[buffer]{c, []uint32{50}}, part[buffer]{&d, []uint32{60}}))
	r.drop(c, &d)
	r.close()

	// What is set aside is enough for the copy as well.
	r = reuseRig(t, 6)
	r.cache(sequence(1, 8), OpenOptions{})
	e, m := r.read(sequence(1, 8), OpenOptions{})
	require.Equal(t, 7, m.Cached)
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{e.seq, 16}))
	require.NoError(t, r.prefill(r.s, e))
	greedy, _ := r.read(nil, OpenOptions{})
	for r.run(r.s, part[buffer]{greedy, sequence(200, 4)}) == nil {
	}
	require.NoError(t, r.run(r.s, part[buffer]{e, sequence(90, 8)}))
	r.drop(e, greedy)
	r.close()
}

// A floor keeps other salts from what it protects, but not who was promised blocks.
func TestPromisesGoBeforeFloors(t *testing.T) {
	r := reuseRig(t, 6)
	own := prefix.Scope{Salt: []byte("own")}
	require.NoError(t, r.pool.Limit(own, prefix.Limits{Floor: 4}))
	a, _ := r.read(nil, OpenOptions{})
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{a.seq, 8}))
	r.cache(sequence(1, 16), OpenOptions{Scope: own})
	b, _ := r.serve(sequence(50, 8), OpenOptions{}) // the free ones
	require.ErrorIs(t, r.run(r.s, part[buffer]{b, sequence(90, 4)}), ErrOutOfBlocks{})
	require.Equal(t, 15, r.matched(sequence(1, 16), OpenOptions{Scope: own}))
	r.drop(b)
	// Three blocks, of which two are promised: the third comes from what is not protected.
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(200, 12)}))
	r.drop(a)
	r.close()
}

// What a quota refuses is offered again with the next full block, and not before.
func TestRefusedBlocksAreOfferedAgain(t *testing.T) {
	r := reuseRig(t, 10)
	require.NoError(t, r.pool.Limit(prefix.Scope{}, prefix.Limits{Quota: 1}))
	a, _ := r.serve(sequence(1, 8), OpenOptions{})
	require.NoError(t, r.pool.Limit(prefix.Scope{}, prefix.Limits{}))
	for i, want := range []int{4, 4, 4, 12} {
		require.NoError(t, r.run(r.s, part[buffer]{a, sequence(9+i, 1)}))
		require.Equal(t, want, r.matched(sequence(1, 13), OpenOptions{}))
	}
	r.drop(a)
	r.close()
}

// Options that cannot be are errors, and take nothing.
func TestReuseRefusesBadInput(t *testing.T) {
	r := reuseRig(t, 4)
	for _, o := range []OpenOptions{{RetentionHint: prefix.RetentionHint{Priority: 101}}, {RetentionHint: prefix.RetentionHint{Priority: -1}}, {RetentionHint: prefix.RetentionHint{TTL: -1}}} {
		_, _, err := r.pool.Open(sequence(1, 4), o)
		require.ErrorIs(t, err, backend.ErrArgument{})
		_, err = r.pool.Match(nil, o)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	_, _, err := r.pool.Open(make([]uint32, 41), OpenOptions{})
	require.ErrorIs(t, err, ErrCapacity{Have: 41, Max: 40})
	_, err = r.pool.Pin(nil, 0, OpenOptions{})
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.ErrorIs(t, r.pool.Unpin(nil), prefix.ErrLeaseEnded)
	require.ErrorIs(t, r.pool.Limit(prefix.Scope{}, prefix.Limits{Quota: -1}), backend.ErrArgument{})
	wild := OpenOptions{Items: []prefix.Item{{Begin: -9, End: math.MaxInt, Hash: []byte{1}}, {Begin: 3, End: -1, Hash: []byte{2}}, {Begin: math.MaxInt - 1, End: math.MaxInt, Hash: []byte{3}}}}
	_, err = r.pool.Match(sequence(1, 9), OpenOptions{Items: []prefix.Item{{End: 2}}})
	require.ErrorContains(t, err, "item 0 has no hash")
	a, _ := r.serve(sequence(1, 9), wild)
	r.drop(a)
	require.Zero(t, r.idle().Sequences)
	r.close()
	_, err = r.pool.Match(nil, OpenOptions{})
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = r.pool.Watch(1)
	require.ErrorIs(t, err, ErrClosed)

	off := small(Paged)
	off.Memory.Prefix = prefix.Off
	r = deviceRig(t, off)
	r.cache(sequence(1, 9), OpenOptions{})
	require.Zero(t, r.matched(sequence(1, 9), OpenOptions{}))
	_, err = r.pool.Pin(nil, 1, OpenOptions{})
	_, _, watch := r.pool.Watch(1)
	_, stats := r.pool.SaltStats(prefix.Scope{})
	for _, err := range []error{err, watch, stats, r.pool.Unpin(nil), r.pool.Limit(prefix.Scope{}, prefix.Limits{})} {
		require.ErrorIs(t, err, backend.ErrUnsupported{}, "%v", err)
	}
	require.NoError(t, r.pool.Clear(true), "there is nothing to forget")
	m, err := r.pool.Match(sequence(1, 9), OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, Match{Uncached: 9, MissReason: prefix.NotLookedUp}, m)
	r.pool.Unwatch(nil)
	r.close()
}
