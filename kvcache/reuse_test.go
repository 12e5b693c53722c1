package kvcache

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// The behaviours that serving systems agree on, under the letters and numbers of
// docs/cases.md: A allocation, B prefix reuse, C what parts keys, E life in flight.

// reuseRig is a rig of so many blocks of 4 tokens, evicted in the order of release.
func reuseRig(t testT, blocks int) *rig[buffer] {
	cfg := small(Paged)
	cfg.Model.Layers, cfg.Memory.Blocks, cfg.Memory.Prefix = 1, blocks, prefix.LRU
	return deviceRig(t, cfg)
}

// drop releases readers after a last look at their content.
func (r *rig[B]) drop(xs ...*reader[B]) {
	r.t.Helper()
	for _, x := range xs {
		r.check(r.s, x)
		require.NoError(r.t, x.seq.Release())
	}
	r.idle()
}

func TestA7FailedStepChangesNothing(t *testing.T) {
	r := reuseRig(t, 11)
	a, _ := r.serve(sequence(1, 13), OpenOptions{})
	r.cache(append(sequence(1, 8), 90, 91, 92, 93), OpenOptions{})
	b, m := r.read(append(sequence(1, 8), 90, 91, 92, 93, 94), OpenOptions{})
	require.Equal(t, 12, m.Cached)
	c, _ := r.read(nil, OpenOptions{})
	r.cache(sequence(200, 12), OpenOptions{})
	watch := newMirror(t, r.pool)
	before := r.idle()
	// 3 blocks are free, 3 cached; the first sequence alone would fit by evicting those.
	err := r.run(r.s, part[buffer]{c, sequence(300, 20)}, part[buffer]{b, []uint32{94, 95, 96, 97, 98}})
	require.ErrorIs(t, err, ErrOutOfBlocks{Need: 7, Free: 6})
	require.Equal(t, before, r.idle())
	watch.follow()
	require.Zero(t, watch.gone)
	require.Equal(t, 11, r.matched(sequence(200, 12), OpenOptions{}))
	r.drop(a, b, c)
	r.close()
}

func TestA8NeedIsWhatIsTaken(t *testing.T) {
	for _, n := range []int{4, 8, 12, 16} {
		r := reuseRig(t, 11)
		r.cache(sequence(1, 7), OpenOptions{})
		a, m := r.read(sequence(1, n), OpenOptions{})
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{a.seq, n}))
		before := r.idle()
		require.NoError(t, r.prefill(r.s, a))
		after := r.idle()
		require.Zero(t, after.Reserved)
		copies := 0
		if m.Cached%4 != 0 {
			copies = 1
		}
		require.Equal(t, before.Reserved, n/4-m.Cached/4, "%d tokens", n)
		require.Equal(t, before.Reserved-copies, after.Held-before.Held)
		r.drop(a)
		r.close()
	}
}

func TestA9CachedBlockCountsOnce(t *testing.T) {
	r := reuseRig(t, 2)
	r.cache(sequence(1, 4), OpenOptions{})
	a, m := r.read(sequence(1, 8), OpenOptions{})
	require.Equal(t, 4, m.Cached)
	require.Equal(t, 1, r.idle().Held)
	require.NoError(t, r.prefill(r.s, a))
	require.Equal(t, 2, r.idle().Held)
	r.drop(a)
	r.close()
}

func TestB1SharedPrefixAndOrderOfEviction(t *testing.T) {
	r := reuseRig(t, 10)
	a, _ := r.serve(sequence(1, 14), OpenOptions{})
	b, m := r.serve(append(sequence(1, 12), 90, 91), OpenOptions{})
	require.Equal(t, 12, m.Cached)
	require.Equal(t, a.numbers()[:3], b.numbers()[:3])
	st := r.idle()
	require.Equal(t, [2]int{5, 8}, [2]int{st.Held, st.Logical})
	require.Equal(t, 3*st.BytesPerBlock, st.BytesShared)
	r.drop(a)
	st = r.idle()
	require.Equal(t, [2]int{4, 1}, [2]int{st.Held, st.Cached}, "the unfilled block is cached, the others are in use")
	r.drop(b)
	found := func() [2]int {
		return [2]int{r.matched(sequence(1, 15), OpenOptions{}), r.matched(append(sequence(1, 12), 90, 91, 92), OpenOptions{})}
	}
	c, _ := r.serve(sequence(200, 20), OpenOptions{})
	require.Equal(t, [2]int{14, 14}, found(), "what is free goes before what is cached")
	for i, left := range [][2]int{{12, 14}, {12, 12}, {8, 8}, {4, 4}, {0, 0}} { // the tails go before the head, the first one first
		require.NoError(t, r.run(r.s, part[buffer]{c, sequence(300+4*i, 4)}))
		require.Equal(t, left, found())
	}
	r.drop(c)
	r.close()
}

func TestB2TouchedPrefixLeavesTheOrder(t *testing.T) {
	r := reuseRig(t, 6)
	r.cache(sequence(1, 8), OpenOptions{})
	r.cache(sequence(50, 8), OpenOptions{})
	a, m := r.read(sequence(1, 9), OpenOptions{})
	require.Equal(t, 8, m.Cached)
	require.Equal(t, 2, r.idle().Cached)
	r.drop(a) // which was released last now
	b, _ := r.serve(sequence(200, 16), OpenOptions{})
	require.Equal(t, 8, r.matched(sequence(1, 9), OpenOptions{}))
	require.Zero(t, r.matched(sequence(50, 9), OpenOptions{}))
	r.drop(b)
	r.close()
}

func TestB3HitIsNotEvictedForItsOwnPrompt(t *testing.T) {
	r := reuseRig(t, 2)
	r.cache(sequence(1, 8), OpenOptions{})
	a, m := r.serve([]uint32{1, 2, 3, 4, 9, 9}, OpenOptions{})
	require.Equal(t, 4, m.Cached)
	require.Equal(t, 4, r.matched(sequence(1, 9), OpenOptions{}))
	r.drop(a)
	r.close()
}

func TestB4ReusedBlockIsNotFound(t *testing.T) {
	r := reuseRig(t, 2)
	r.cache(sequence(1, 8), OpenOptions{})
	a, _ := r.serve(sequence(50, 5), OpenOptions{}) // in both blocks, the second not full
	st := r.idle()
	require.Equal(t, 1, st.Prefix.Blocks)
	require.Zero(t, r.matched(sequence(1, 9), OpenOptions{}))
	r.drop(a)
	r.close()
}

func TestB5DecodePublishesWhatIsFull(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.BlockSize, cfg.Memory.Capacity = 16, 96
	r := deviceRig(t, cfg)
	a, _ := r.serve(sequence(1, 55), OpenOptions{})
	for range 4 {
		require.NoError(t, r.run(r.s, part[buffer]{a, []uint32{7}}))
	}
	st := r.idle()
	require.Equal(t, [2]int{4, 3}, [2]int{st.Held, st.Prefix.Blocks})
	for range 15 {
		require.NoError(t, r.run(r.s, part[buffer]{a, []uint32{7}}))
	}
	st = r.idle()
	require.Equal(t, [2]int{5, 4}, [2]int{st.Held, st.Prefix.Blocks})
	b, m := r.read(append(slices.Clone(a.tokens), 8), OpenOptions{})
	require.Equal(t, 64, m.Cached, "what was decoded is found, too")
	r.drop(a, b)
	r.close()
}

func TestB6LogitsOfThePromptAreComputed(t *testing.T) {
	r := reuseRig(t, 20)
	a, _ := r.serve(sequence(1, 9), OpenOptions{})
	b, m := r.serve(sequence(1, 9), OpenOptions{NoReuse: true})
	require.Zero(t, m.Cached)
	require.Equal(t, 9, m.Uncached)
	for _, id := range b.numbers() {
		require.NotContains(t, a.numbers(), id)
	}
	require.Equal(t, 2, r.idle().Prefix.Blocks)
	require.Equal(t, 6, r.idle().Held)
	r.drop(a, b)
	c, m := r.serve(sequence(50, 9), OpenOptions{NoReuse: true})
	require.Zero(t, m.Cached)
	require.Equal(t, 8, r.matched(sequence(50, 9), OpenOptions{}), "what nobody has is left to others")
	d, _ := r.serve(sequence(80, 9), OpenOptions{NoPublish: true})
	require.Zero(t, r.matched(sequence(80, 9), OpenOptions{}))
	r.drop(c, d)
	r.close()
}

func TestB7OneTokenIsLeft(t *testing.T) {
	r := reuseRig(t, 20)
	for n := 1; n < 13; n++ {
		a, _ := r.serve(sequence(1, n), OpenOptions{})
		require.Equal(t, n-max(n%4, 1), r.matched(sequence(1, n), OpenOptions{}), "of %d tokens, while the last ones may be followed by others in their block", n)
		r.drop(a)
		b, m := r.read(sequence(1, n), OpenOptions{})
		require.Equal(t, 1, m.Uncached, "of %d tokens", n)
		require.NoError(t, b.seq.Release())
		require.NoError(t, r.pool.Clear(false))
	}
	r.close()
}

func TestB8ClearIsRefusedWhileInUse(t *testing.T) {
	r := reuseRig(t, 20)
	a, _ := r.serve(sequence(1, 9), OpenOptions{})
	watch := newMirror(t, r.pool)
	require.ErrorIs(t, r.pool.Clear(false), prefix.ErrInUse{Blocks: 2})
	r.drop(a)
	e := <-watch.sub.C
	require.Equal(t, [2]any{prefix.Stored, sequence(9, 1)}, [2]any{e.Kind, e.Tokens}, "the end of what was released")
	require.NoError(t, r.pool.Clear(false))
	e = <-watch.sub.C
	require.Equal(t, prefix.Cleared, e.Kind)
	require.Empty(t, watch.sub.C)
	require.Zero(t, r.idle().Prefix.Blocks)

	a, _ = r.serve(sequence(1, 9), OpenOptions{})
	b, m := r.read(sequence(1, 9), OpenOptions{})
	require.Equal(t, 8, m.Cached)
	short, _ := r.serve(sequence(70, 3), OpenOptions{}) // which has nothing in the tree
	require.NoError(t, r.pool.Clear(true))
	require.NoError(t, r.run(r.s, part[buffer]{short, sequence(73, 9)}))
	require.NoError(t, r.prefill(r.s, b)) // with the old weights: not for others
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(30, 9)}))
	require.Zero(t, r.idle().Prefix.Blocks)
	c, m := r.serve(sequence(1, 9), OpenOptions{})
	require.Zero(t, m.Cached)
	require.Equal(t, 2, r.idle().Prefix.Blocks)
	r.drop(a, b, short)
	require.Equal(t, 2, r.idle().Prefix.Blocks, "nor are the ends of those")
	r.drop(c)
	require.Equal(t, 3, r.idle().Prefix.Blocks)
	r.close()
}

func TestB12RemovedWasStored(t *testing.T) {
	r := reuseRig(t, 4)
	watch := newMirror(t, r.pool) // which looks at every event
	for i := range 20 {
		r.cache(sequence(100*i, 9), OpenOptions{})
		watch.follow()
		require.Len(t, watch.blocks, r.idle().Prefix.Blocks)
	}
	require.Greater(t, watch.gone, 30)
	late := newMirror(t, r.pool)
	require.Equal(t, watch.blocks, late.blocks, "who comes later is told what there is")
	r.pool.Unwatch(late.sub)
	_, open := <-late.sub.C
	require.False(t, open)
	_, _, err := r.pool.Watch(prefix.MaxEventBuffer + 1)
	require.ErrorIs(t, err, backend.ErrArgument{})
	r.close()
	_, open = <-watch.sub.C
	require.False(t, open, "closing the pool ends the stream")
	r.pool.Unwatch(watch.sub)
}
