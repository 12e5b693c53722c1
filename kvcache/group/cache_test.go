package group

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// Parts of entries of four tokens, a block each.
var (
	full  = Part{Rule: Rule{Block: 4}, Each: 1}
	last4 = Part{Rule: Rule{Kind: Window, Block: 4, Window: 5}, Each: 1} // and the query's own
	last8 = Part{Rule: Rule{Kind: Window, Block: 4, Window: 9}, Each: 1}
	state = Part{Rule: Rule{Kind: State, Block: 4}, Each: 1}
)

// span is a text of the tokens from 1 to n.
func span(scope string, n int) string {
	for i := range n {
		scope += string(rune(1 + i))
	}
	return scope
}

// newCase is a world of a test with room enough.
func newCase(t *testing.T, cfg Config, parts ...Part) *world {
	cfg.Parts = parts
	w := newWorld(t, 60, 40, cfg)
	t.Cleanup(w.end)
	return w
}

// run serves a text to its end.
func (w *world) run(text string, borders int, state bool) {
	u := w.serve(text, borders)
	require.NotNil(w.t, u)
	w.finish(u, state)
	w.check()
}

// with is the block of a part that is with the entry that a text ends.
func (w *world) with(text string, part, i int) block.Block { return w.known[text].with[part][i] }

// lacks reports which of the entries of a text lack a part's first block.
func (w *world) lacks(text string, part int) (out []bool) {
	for n := w.size; n < len(text); n += w.size {
		out = append(out, w.known[text[:1+n]] == nil || w.with(text[:1+n], part, 0) == block.Block{})
	}
	return out
}

// D1: the hit is the longest prefix for which every part still has what it needs.
func TestD1LongestThatAllPartsHave(t *testing.T) {
	w := newCase(t, Config{Every: 1}, full, last4, last8)
	longer := span("a", 20) // so that what is looked at is not the end of a path
	text := longer[:1+16]
	w.run(longer, 1, false)
	require.Equal(t, 16, w.match(text))
	require.Equal(t, 14, w.match(text[:15]), "inside of an entry")
	for _, lost := range []struct{ n, part, want int }{
		{4, 1, 16},  // nobody sees that
		{4, 2, 16},  // nor that
		{16, 1, 12}, // one back, for all
		{12, 2, 0},  // 12 needs it, 8 needs both before it
	} {
		w.forget(w.with(text[:1+lost.n], lost.part, 0))
		require.Equal(t, lost.want, w.match(text), lost)
		w.check()
	}
	m, missing := w.c.Match(root(text), query(text))
	require.Equal(t, [3]int{0, 0, 16}, [3]int{m.Tokens, m.Blocks, missing})
	require.Equal(t, prefix.WasEvicted, m.MissReason())

	w.run(text, 1, false) // who computes it anew
	require.Equal(t, 16, w.match(text))
	w.forget(w.with(text[:1+8], 0, 0))
	require.Equal(t, 4, w.match(text), "what all need takes what is behind it with it")
}

// D2: a window needs only its last blocks before the hit, and its sinks.
func TestD2LastBlocksOfAWindow(t *testing.T) {
	sinks := last8
	sinks.Sinks = 3
	w := newCase(t, Config{}, full, last8, sinks)
	text := span("a", 40)
	w.run(text, 1, false)
	want := []bool{true, true, true, true, true, true, true, true, false, false}
	require.Equal(t, want, w.lacks(text, 1), "all but the last two left")
	want[0] = false
	require.Equal(t, want, w.lacks(text, 2))
	u := w.open(text + "more")
	require.Equal(t, text, u.text)
	require.Equal(t, []list{{0, 0, u.lists[0].blocks}, {8, 0, u.lists[1].blocks}, {7, 1, u.lists[2].blocks}}, u.lists)
	require.Len(t, u.lists[0].blocks, 10)
	require.Len(t, u.lists[1].blocks, 2)
	require.Len(t, u.lists[2].blocks, 3)
	w.give(u)
	for n := 35; n < 40; n++ {
		require.Zero(t, w.match(text[:1+n]), "the first block of its window is gone")
	}

	w.forget(w.with(text[:1+4], 2, 0))
	require.Zero(t, w.match(text), "no sinks")
}

// A chunk needs what is in it, and at its beginning nothing.
func TestChunksBeginAnew(t *testing.T) {
	chunked := Part{Rule: Rule{Kind: Chunked, Block: 2, Chunk: 8}, Each: 2}
	w := newCase(t, Config{Every: 1}, full, chunked)
	text := span("a", 15)
	w.run(text, 1, false)
	for at := range w.at {
		if w.at[at].part == 1 && w.at[at].e.text == text[:1+8] {
			w.forget(at)
		}
	}
	require.Equal(t, 15, w.match(text), "the first chunk is over")
	require.Equal(t, 4, w.match(text[:1+7]))
	require.Equal(t, 8, w.match(text[:1+8]))
	w.forget(w.with(text[:1+12], 1, 1))
	require.Equal(t, 8, w.match(text))
	u := w.open(text)
	require.Equal(t, list{gone: 4}, list{gone: u.lists[1].gone})
	require.Empty(t, u.lists[1].blocks)
	w.give(u)
}

// D3: of the blocks that left a window together the later one is evicted first.
func TestD3LaterBlocksGoFirst(t *testing.T) {
	w := newCase(t, Config{Every: 1}, full, last8)
	text := span("a", 20)
	u := w.open(text)
	for _, n := range []int{8, 16, 20} {
		require.True(t, w.grow(u, text[len(u.text):1+n], false))
		w.publish(u, false, false, prefix.RetentionHint{})
	}
	w.check()
	at := func(n int) block.Block { return w.with(text[:1+n], 1, 0) }
	require.Equal(t, []block.Block{at(8), at(4), at(12)}, w.old, "two together, and one")
	w.give(u)
	require.Equal(t, []block.Block{at(8), at(4), at(12), at(20), at(16)}, w.old)
	for _, gone := range append([]block.Block{}, w.old...) {
		require.True(t, w.evict(1))
		require.NotContains(t, w.at, gone)
		w.check()
	}
	require.Equal(t, 5, w.pages.Cached(), "of the other part")
}

// D5: a state is found at the end of what it was computed from and nowhere else, and nothing is found without one.
func TestD5StatesAtTheirCheckpoints(t *testing.T) {
	w := newCase(t, Config{}, full, state)
	text := span("a", 22)
	w.run(text, 2, true) // at 8, 16 and 22
	require.Equal(t, []bool{true, false, true, false, true}, w.lacks(text, 1))
	for n, want := range map[int]int{4: 0, 7: 0, 8: 8, 9: 8, 15: 8, 16: 16, 20: 16, 21: 16, 22: 22} {
		require.Equal(t, want, w.match(text[:1+n]), n)
	}
	require.Equal(t, 22, w.match(text+"more"))
	require.Equal(t, 16, w.match(text[:1+21]+"else"))
	w.forget(w.with(text, 1, 0))
	require.Nil(t, w.known[text], "the end of a path that nobody owns is of no use without it")
	w.forget(w.with(text[:1+16], 1, 0))
	require.Equal(t, 8, w.match(text), "though attention has all")
	w.forget(w.with(text[:1+8], 1, 0))
	require.Zero(t, w.match(text))
	_, missing := w.c.Match(root(text), query(text))
	require.Equal(t, 20, missing)
}

// D5: a checkpoint of a prefix that many share stays when nothing is kept of what leaves a window.
func TestD5SharedCheckpointWithoutRetention(t *testing.T) {
	w := newCase(t, Config{}, full, state)
	shared := span("a", 8)
	w.run(shared, 1, true)
	for _, more := range []string{"xxxxxxxx", "yyyyyyyy", "zzzzzzzz"} {
		u := w.open(shared + more)
		require.Equal(t, 8, u.tokens())
		require.True(t, w.grow(u, more, false))
		w.finish(u, true)
		w.check()
	}
	require.Equal(t, 8, w.match(shared+"else"))
	require.Equal(t, 16, w.match(shared+"yyyyyyyy"))
}

// A part without anything does not matter.
func TestNone(t *testing.T) {
	w := newCase(t, Config{}, Part{Rule: Rule{Kind: None, Block: 1}}, last4, Part{Rule: Rule{Kind: None, Block: 1}})
	text := span("a", 12)
	w.run(text, 1, false)
	require.Equal(t, 12, w.match(text))
	u := w.open(text)
	require.Empty(t, u.lists[0].blocks)
	require.Len(t, u.lists[1].blocks, 1)
	require.Equal(t, 1, w.pages.Held())
	w.give(u)
	require.Equal(t, "full window chunked state none unknown", Full.String()+" "+Window.String()+" "+Chunked.String()+" "+State.String()+" "+None.String()+" "+Kind(99).String())
}

// A prefix that is too short to be worth it is none.
func TestShortestPrefix(t *testing.T) {
	w := newCase(t, Config{Tree: prefix.Config{MinPrefix: 9}}, full, state)
	text := span("a", 12)
	w.run(text, 1, false)
	require.Equal(t, 12, w.match(text))
	require.Zero(t, w.match(text[:1+11]), "8 have a state")
	u := w.open(text[:1+11])
	require.Zero(t, u.tokens())
	require.Nil(t, w.pin(text[:1+11], time.Second))
	w.give(u)
}

func TestNewRefuses(t *testing.T) {
	pages, err := block.New(4)
	require.NoError(t, err)
	_, err = New(pages, Config{Tree: prefix.Config{BlockSize: 4}})
	require.ErrorIs(t, err, block.ErrRange{})
	_, err = New(pages, Config{Entries: 4})
	require.ErrorIs(t, err, prefix.ErrArgument{})
}
