package group

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// Who computes the same tokens at the same time takes over the blocks that are there and puts those that are gone back.
func TestLateBlocks(t *testing.T) {
	w := newCase(t, Config{Every: 1}, full, last8)
	text := span("a", 8)
	u, v := w.open(text), w.open(text)
	for _, one := range []*user{u, v} {
		require.True(t, w.grow(one, text[1:], false))
	}
	own := [][]block.Block{{v.lists[0].blocks[0], v.lists[0].blocks[1]}, {v.lists[1].blocks[0], v.lists[1].blocks[1]}}
	w.publish(u, false, false, prefix.RetentionHint{})
	require.Equal(t, u.path, w.c.Wrote())
	w.give(u)
	w.forget(w.with(text[:1+4], 1, 0))
	require.Zero(t, w.match(text))
	w.check()

	w.publish(v, false, false, prefix.RetentionHint{})
	require.Equal(t, v.path[:1], w.c.Wrote())
	require.Equal(t, own[1][0], w.with(text[:1+4], 1, 0), "put back")
	require.Equal(t, own[1][0], v.lists[1].blocks[0])
	for _, taken := range []struct{ have, own block.Block }{
		{v.lists[0].blocks[0], own[0][0]}, {v.lists[0].blocks[1], own[0][1]}, {v.lists[1].blocks[1], own[1][1]},
	} {
		require.NotEqual(t, taken.own, taken.have)
		require.Equal(t, 1, w.refs[taken.have])
		require.Zero(t, w.refs[taken.own])
	}
	require.Equal(t, 8, w.match(text))
	w.check()
}

// Where claims leave nothing to take, a sequence keeps its own blocks, and nobody finds an entry without blocks.
func TestClaimsLeaveNothingToShare(t *testing.T) {
	w := newCase(t, Config{}, full, last4)
	text := span("a", 12)
	u := w.open(text)
	require.True(t, w.grow(u, text[1:], false))
	w.run(text[:1+8], 1, false)
	own := u.lists[0].blocks[0]
	require.NoError(t, w.pages.Reserve([]block.Reservation{{Claim: &w.claim, Blocks: w.pages.Available() - 1}}))
	w.publish(u, false, false, prefix.RetentionHint{})
	w.check()
	require.Empty(t, u.path)
	require.Equal(t, own, u.lists[0].blocks[0])
	require.Equal(t, 8, w.match(text), "and not 12, of which there is no more than the entry")
	w.pages.Cancel(&w.claim)
	w.publish(u, false, false, prefix.RetentionHint{})
	require.Len(t, u.path, 3)
	w.check()
	require.Equal(t, 12, w.match(text))
	w.give(u)
}

// The end of a sequence that is the beginning of an entry is not put with it: its blocks and its state are not what that
// says.
func TestEndInsideOfALongerEntry(t *testing.T) {
	for _, longer := range []int{7, 8} { // of an entry that is not full, and of one that is
		w := newCase(t, Config{Every: 1}, full, last4, state)
		text := span("a", longer)
		u, v := w.open(text), w.open(text)
		require.True(t, w.grow(u, text[1:], false))
		require.True(t, w.grow(v, text[1:1+6], false))
		w.finish(u, true)
		require.Equal(t, longer, w.match(text))
		w.read(text) // so that somebody owns the end
		w.forget(w.with(text, 1, 0))
		require.Zero(t, w.match(text))
		w.publish(v, true, true, prefix.RetentionHint{})
		w.check()
		require.Len(t, v.path, 1)
		require.Zero(t, w.match(text), "the block has six tokens")
		require.Zero(t, w.match(text[:1+6]))
		w.give(v)
		w.run(text, 1, true)
		require.Equal(t, longer, w.match(text))
		require.Equal(t, 4, w.match(text[:1+6]), "the later state is that of all")
	}
}

// An entry that is not full gives way to one that goes on, with its state.
func TestLongerEntryTakesThePlace(t *testing.T) {
	w := newCase(t, Config{}, full, state)
	text := span("a", 8)
	w.run(text[:1+6], 4, true)
	require.Equal(t, 6, w.match(text))
	u := w.open(text)
	require.Equal(t, 6, u.tokens())
	require.True(t, w.grow(u, text[1+6:], false))
	w.publish(u, false, false, prefix.RetentionHint{})
	require.Zero(t, w.match(text), "it has no state yet")
	w.checkpoint(u)
	require.Equal(t, 8, w.match(text))
	require.Zero(t, w.match(text[:1+6]))
	w.check()
	w.give(u)
}

// A block is with one entry at most: of two sequences that share the beginning of an entry of several blocks and go on
// differently, the second keeps its own.
func TestBlocksOfForksAreOneEntrys(t *testing.T) {
	two := Part{Rule: Rule{Block: 2}, Each: 2}
	w := newCase(t, Config{}, two, last4)
	u := w.open("a")
	require.True(t, w.grow(u, span("", 2), false))
	w.fork(u)
	v := w.users[1]
	require.True(t, w.grow(u, "xx", false))
	require.True(t, w.grow(v, "yyyyyy", false))
	w.publish(u, false, false, prefix.RetentionHint{})
	w.publish(v, false, false, prefix.RetentionHint{})
	require.Len(t, u.path, 1)
	require.Empty(t, v.path)
	w.check()
	require.Equal(t, 4, w.match(u.text))
	require.Equal(t, 2, w.match(v.text), "what both have")
}

// Nor is one of a window moved from one entry to another.
func TestBlocksOfForksInWindows(t *testing.T) {
	two := Part{Rule: Rule{Kind: Window, Block: 2, Window: 4}, Each: 2}
	w := newCase(t, Config{Every: 1}, two)
	u := w.open("a")
	require.True(t, w.grow(u, span("", 2), false))
	w.fork(u)
	v := w.users[1]
	require.True(t, w.grow(u, "xx", false))
	require.True(t, w.grow(v, "yy", false))
	w.publish(u, false, false, prefix.RetentionHint{})
	w.publish(v, false, false, prefix.RetentionHint{})
	w.check()
	require.Equal(t, 4, w.match(u.text))
	require.Zero(t, w.match(v.text), "it lacks the first block")
	w.give(u)
	w.check()
	require.True(t, w.grow(v, "yyyy", false))
	w.publish(v, false, false, prefix.RetentionHint{})
	require.Equal(t, 8, w.match(v.text))
	w.give(v)
}

// States are kept where others will share them, at every Every-th border of entries, and at the ends of prompts.
func TestKeepsStates(t *testing.T) {
	for every, want := range map[int][]int{0: {7}, 1: {1, 2, 3, 4, 5, 6, 7}, 3: {3, 6, 7}} {
		c := newCase(t, Config{Every: every}, full, state).c
		var kept []int
		for n := 1; n < 8; n++ {
			if c.Keeps(n, RestorePoints{End: 7 * 4}) {
				kept = append(kept, n)
			}
		}
		require.Equal(t, want, kept, every)
	}
}

// Of an entry that left the tree no checkpoint is kept: its number will be another's.
func TestCheckpointOfForgottenEntry(t *testing.T) {
	w := newCase(t, Config{}, full, state)
	text := span("a", 4)
	u := w.open(text)
	require.True(t, w.grow(u, text[1:], false))
	w.publish(u, false, false, prefix.RetentionHint{})
	w.forget(u.lists[0].blocks[0])
	w.checkpoint(u)
	w.check()
	require.Zero(t, w.match(text))
	w.give(u)
	w.run("b"+text[1:], 4, false)
	require.Equal(t, 4, w.match("b"+text[1:]))
	require.Equal(t, w.pages.Total()-2, w.pages.Free())
}

// Insertion stops where there is no room for more entries, and behind what somebody forgot it fails.
func TestInsertWithoutRoom(t *testing.T) {
	w := newWorld(t, 60, 4, Config{Parts: []Part{full, last4}})
	text := span("a", 24)
	u := w.open(text)
	require.True(t, w.grow(u, text[1:], false))
	w.run("b"+text[1:1+8], 1, false)
	w.publish(u, false, false, prefix.RetentionHint{})
	require.Len(t, u.path, 4)
	require.Zero(t, w.match("b"+text[1:]), "evicted for it")
	w.publish(u, false, false, prefix.RetentionHint{})
	require.Len(t, u.path, 4)
	w.check()
	w.forget(u.lists[0].blocks[1])
	require.True(t, w.grow(u, "more", false))
	w.check()
	require.NoError(t, w.c.Tree().Release(u.path[3:]))
	u.path = u.path[:3]
	w.publish(u, false, false, prefix.RetentionHint{}) // the model knows that this fails
	require.Len(t, u.path, 1)
	w.publish(u, false, false, prefix.RetentionHint{})
	require.Len(t, u.path, 4)
	w.check()
	w.end()
}

// Room for entries is made as room for blocks is: what a floor protects stays.
func TestRoomKeepsFloors(t *testing.T) {
	w := newWorld(t, 60, 4, Config{Parts: []Part{full, last4}})
	text := span("b", 8)
	w.run(text, 1, false)
	require.NoError(t, w.c.Tree().SetLimits(root("b"), prefix.Limits{Floor: 1}))
	u := w.open("a")
	require.True(t, w.grow(u, span("", 16), false))
	w.publish(u, false, false, prefix.RetentionHint{})
	require.Len(t, u.path, 3)
	require.Len(t, w.known, 4, "one of the other's")
	require.NotNil(t, w.known[text[:1+4]])
	w.give(u)
	require.NoError(t, w.c.Tree().SetLimits(root("b"), prefix.Limits{}))
	w.end()
}

// What leaves a window stays with entries for who comes to their borders, as often as Every says, and for all where
// others own it.
func TestDropEvery(t *testing.T) {
	text := span("a", 36)
	for every, want := range map[int]string{0: "-------##", 1: "#########", 3: "-##-##-##", 4: "--##--###"} {
		w := newCase(t, Config{Every: every}, full, last8)
		w.run(text, 1, false)
		have := ""
		for _, lacks := range w.lacks(text, 1) {
			have += map[bool]string{true: "-", false: "#"}[lacks]
		}
		require.Equal(t, want, have)
		for n := 4; n <= 36; n += 4 {
			hit := every > 0 && n/4%every == 0 || n == 36
			require.Equal(t, hit, w.match(text[:1+n]) == n, "%d of every %d", n, every)
		}
	}
	w := newCase(t, Config{}, full, last4)
	u := w.serve(text[:1+8], 1)
	w.fork(u)
	require.True(t, w.grow(u, "xxxxxxxx", false))
	require.Equal(t, 8, w.match(text[:1+8]), "the other one reads it")
	require.True(t, w.grow(w.users[1], "yyyyyyyy", false))
	require.Zero(t, w.match(text[:1+8]))
	w.check()
}

// What has its time between a lookup and the taking is not taken, nor what would lack its windows without it.
func TestTimeGoesByInATake(t *testing.T) {
	for _, pin := range []bool{false, true} {
		w := newCase(t, Config{}, full, last4)
		text := span("a", 8)
		u := w.open(text)
		require.True(t, w.grow(u, text[1:1+4], false))
		w.publish(u, false, false, prefix.RetentionHint{})
		require.True(t, w.grow(u, text[1+4:], false))
		w.publish(u, false, false, prefix.RetentionHint{TTL: time.Second})
		w.give(u)
		require.Equal(t, []bool{true, false}, w.lacks(text, 1))
		asked := 0
		w.tick = func() {
			if asked++; asked == 2 {
				w.now = w.now.Add(time.Minute)
			}
		}
		if pin {
			l, err := w.c.Pin(root(text), query(text), time.Hour)
			require.NoError(t, err)
			require.Zero(t, l.Match.Tokens)
		} else {
			f, err := rows{w.c}.take(root(text), query(text), prefix.RetentionHint{}, prefix.Match{})
			require.NoError(t, err)
			require.Equal(t, Found{Match: f.Match, Known: 8, Runs: make([]Run, 2)}, f)
			require.Zero(t, f.Tokens)
		}
		require.Less(t, 1, asked)
		w.tick = func() {}
		w.listen()
		w.check()
	}
}
