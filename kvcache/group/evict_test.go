package group

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// A lease keeps what a prefix needs of every part, until it is given up or its time is over.
func TestLeasesKeepAllThatIsNeeded(t *testing.T) {
	for _, share := range []int{0, 100} {
		w := newCase(t, Config{Every: 1, Share: share}, full, last4, state)
		text := span("a", 14)
		w.run(text, 1, true)
		w.run("b"+text[1:], 1, true)
		l := w.pin(text, time.Minute)
		require.Equal(t, 12, l.Match.Tokens, "entries that are full")
		require.Len(t, l.blocks, 3+1+1)
		require.Equal(t, 5, w.pages.Held())
		w.check()
		require.True(t, w.evict(w.pages.Cached()))
		w.check()
		require.Equal(t, 12, w.match(text))
		require.Zero(t, w.match("b"+text[1:]))
		if share == 0 {
			w.unpin(l)
			require.ErrorIs(t, w.c.Unpin(l.Lease), prefix.ErrLeaseEnded)
		} else {
			w.wait(time.Minute)
		}
		w.check()
		require.Zero(t, w.pages.Held())
		require.Equal(t, 12, w.match(text), "not needed yet")
		require.True(t, w.evict(5))
		require.Zero(t, w.match(text))
	}
}

// Entries are given up as soon as anything asks the tree, their blocks when the cache is asked.
func TestLeaseEndsInTheTree(t *testing.T) {
	w := newCase(t, Config{}, full, last4)
	text := span("a", 8)
	w.run(text, 1, false)
	l := w.pin(text, time.Second)
	w.now = w.now.Add(time.Second)
	w.c.Tree().Expire()
	require.True(t, l.Ended())
	require.Equal(t, 3, w.pages.Held())
	w.check()
	require.Equal(t, 8, w.match(text))
	w.c.Expire()
	w.ended()
	require.Zero(t, w.pages.Held())
	require.Nil(t, w.pin("b", time.Second), "there is nothing to keep")
	_, err := w.c.Pin(root(text), query(text), 0)
	require.ErrorIs(t, err, prefix.ErrArgument{})
}

// What can go alone goes first where there is more of it than its share, and then entries, with what they have.
func TestShareOfWindows(t *testing.T) {
	for share, want := range map[int][4]int{ // entries that are there after each eviction
		0:   {4, 4, 4, 4},
		4:   {4, 4, 3, 2}, // two of sixty blocks
		5:   {4, 3, 2, 1}, // three
		100: {3, 2, 1, 0},
	} {
		w := newCase(t, Config{Every: 1, Share: share, Tree: prefix.Config{Policy: prefix.LRU}}, full, full, last4)
		w.run(span("a", 4), 1, false) // the least recently used one
		w.run(span("b", 12), 1, false)
		require.Len(t, w.old, 4)
		var have [4]int
		for i := range have {
			require.True(t, w.evict(1))
			have[i] = len(w.known)
			w.check()
		}
		require.Equal(t, want, have, share)
	}
}

// Windows whose blocks may stay as long as others can go keep them when nothing else is left to go.
func TestEvictAll(t *testing.T) {
	w := newCase(t, Config{Every: 1, Share: 100}, full, last4, state)
	text := span("a", 12)
	w.run(text, 1, true)
	u := w.open(text) // it owns the entries, and of the others what it needs
	cached := w.pages.Cached()
	require.Equal(t, 5, cached, "two of the window, and all states: it goes on in a copy")
	require.False(t, w.evict(cached+1))
	w.check()
	require.True(t, w.evict(cached))
	w.check()
	require.False(t, w.evict(1))
	require.True(t, w.evict(0))
	w.give(u)
	require.False(t, w.c.EvictAny(w.pages.Cached()+1))
	require.True(t, w.c.EvictAny(w.pages.Cached()))
	w.listen()
	require.Empty(t, w.known)
}

// Claims that want all that is left leave nothing to take, and nothing is changed.
func TestClaimsLeaveNothing(t *testing.T) {
	w := newCase(t, Config{Every: 1}, full, last4, state)
	text := span("a", 12)
	w.run(text, 1, true)
	needed := 3 + 1 + 1
	for left := range needed + 1 {
		require.NoError(t, w.pages.Reserve([]block.Reservation{{Claim: &w.claim, Blocks: w.pages.Available() - left}}))
		cached, entries := w.pages.Cached(), w.c.Entries().Cached()
		f := w.take(text, prefix.RetentionHint{})
		if left < needed {
			require.Zero(t, f.Tokens)
			require.Empty(t, f.Path)
			require.Equal(t, make([]Run, 3), f.Runs)
			path, _ := w.c.Tree().Lookup(nil, root(text), query(text))
			h, err := rows{w.c}.hand(path, 0)
			require.NoError(t, err)
			require.Equal(t, Found{}, h)
			require.Equal(t, [2]int{cached, entries}, [2]int{w.pages.Cached(), w.c.Entries().Cached()})
			require.Nil(t, w.pin(text, time.Second))
			require.Equal(t, 12, w.match(text))
			w.check()
		} else {
			require.Equal(t, 12, f.Tokens)
			for _, run := range f.Runs {
				w.release(run.Blocks)
			}
			require.NoError(t, w.c.Tree().Release(f.Path))
		}
		w.pages.Cancel(&w.claim)
	}
}

// A block that will be written is found no more. One of a window leaves a gap; one that all layers read, or at the end of
// a path that nobody owns, takes the entry with it.
func TestForget(t *testing.T) {
	w := newCase(t, Config{Every: 1}, full, last4)
	text := span("a", 16)
	w.run(text, 1, false)
	free := w.pages.Free()
	w.forget(w.with(text[:1+8], 1, 0))
	require.Equal(t, []bool{false, true, false, false}, w.lacks(text, 1))
	require.Equal(t, free+1, w.pages.Free())
	u := w.open(text)
	w.forget(w.with(text, 1, 0)) // somebody owns the end
	require.NotNil(t, w.known[text])
	require.Equal(t, 12, w.match(text))
	w.check()
	w.give(u)
	w.check()
	w.forget(w.with(text[:1+12], 1, 0))
	require.NotNil(t, w.known[text[:1+12]], "it is not the end")
	w.forget(w.with(text[:1+12], 0, 0))
	require.Len(t, w.known, 2)
	w.check()

	last := w.with(text[:1+8], 0, 0)
	require.False(t, w.c.Forget(block.Block{ID: 99, Gen: 1}))
	require.False(t, w.c.Forget(block.Block{ID: last.ID, Gen: last.Gen + 1}), "another one's content")
	known, _ := w.c.Has(block.Block{ID: last.ID, Gen: last.Gen + 1})
	require.False(t, known)
	require.Len(t, w.known, 2)
}

// What nobody owns goes with its entry when its time is over.
func TestTimeToLive(t *testing.T) {
	w := newCase(t, Config{}, full, last4)
	text := span("a", 8)
	u := w.open(text)
	require.True(t, w.grow(u, text[1:], false))
	w.publish(u, false, false, prefix.RetentionHint{TTL: time.Second})
	w.wait(time.Minute)
	require.Equal(t, 8, w.match(text))
	w.give(u)
	w.check()
	w.wait(time.Second)
	require.Zero(t, w.match(text))
	require.Equal(t, w.pages.Total(), w.pages.Free())
}

// Either all blocks are released or none.
func TestReleaseAllOrNone(t *testing.T) {
	w := newCase(t, Config{}, full)
	u := w.open("a")
	require.True(t, w.grow(u, span("", 8), false))
	blocks := u.lists[0].blocks
	require.ErrorIs(t, w.c.Release([]block.Block{blocks[0], {ID: 99, Gen: 1}}), block.ErrUnknown)
	require.ErrorIs(t, w.c.Release([]block.Block{blocks[1], {ID: blocks[0].ID, Gen: 99}}), block.ErrStale)
	w.check()
	require.NoError(t, w.c.Release(blocks))
	require.ErrorIs(t, w.c.Release(blocks), block.ErrNotHeld)
	w.disown(blocks)
	u.lists[0].blocks = nil
}
