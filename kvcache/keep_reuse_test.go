package kvcache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What others find of a prompt is exact, whichever of its owners has evicted and
// whoever goes first; nothing that an evicted sequence has, or computes later, is offered.
func TestEvictedIsNeverOffered(t *testing.T) {
	prompt := sequence(100, 30)
	for _, list := range [][][]int{
		sinksAndRecent(30, 4, 10),      // whole blocks move up
		sinksAndRecent(30, 5, 9),       // slots move, too
		{{1, 2, 3, 9, 17, 18, 28, 29}}, // from the first block on
		{sequenceOf(21)},               // the end goes
		{{}},
	} {
		for _, o := range []RetainOptions{{}, {Reposition: true}} {
			for order := range 3 {
				r := deviceRig(t, small(Paged))
				a, _ := r.serve(prompt, OpenOptions{})
				b := a
				if order > 0 { // the prompt is somebody else's, too
					b, _ = r.serve(prompt, OpenOptions{})
				}
				require.NoError(t, b.seq.Retain(r.s, list, o))
				want := newHistory(2)
				want.add(contentOf(a.want))
				want.keep(list, o)
				more := sequence(500, 9)
				require.NoError(t, r.feed(feed[buffer]{b.seq, more}))
				want.add(more)
				same := 0 // tokens before the first that was dropped
				for same < len(list[0]) && list[0][same] == same {
					same++
				}
				own := append(chosen(prompt, list[0]), more...)
				check := func(matched int) {
					r.expectHistory(r.s, b.seq, want)
					require.Equal(t, matched, r.matched(prompt, OpenOptions{}))
					x, _ := r.serve(prompt, OpenOptions{})
					r.check(r.s, x)
					require.NoError(t, x.seq.Release())
					require.LessOrEqual(t, r.matched(own, OpenOptions{}), same, "what was computed without some tokens")
				}
				if order == 0 { // what it has changed, or left behind a gap, is taken out
					require.LessOrEqual(t, r.matched(prompt, OpenOptions{}), 28)
					x, m := r.serve(prompt, OpenOptions{})
					require.GreaterOrEqual(t, m.Cached, same/4*4)
					r.check(r.s, x)
					require.NoError(t, x.seq.Release())
				} else {
					check(28) // whole blocks: whoever has the last one may go on in it
					r.check(r.s, a)
				}
				check(29) // one that computed the rest was released
				if order == 2 {
					require.NoError(t, a.seq.Release())
					check(29)
				}
				require.NoError(t, b.seq.Release())
				require.LessOrEqual(t, r.matched(own, OpenOptions{}), same, "nor when it ends")
				if order == 1 {
					r.check(r.s, a)
					require.NoError(t, a.seq.Release())
				}
				x, m := r.serve(prompt, OpenOptions{})
				require.Equal(t, 29, m.Cached)
				r.check(r.s, x)
				require.NoError(t, x.seq.Release())
				r.close()
			}
		}
	}
}

func contentOf(ts []token) []uint32 {
	var ids []uint32
	for _, tk := range ts {
		ids = append(ids, tk.id)
	}
	return ids
}

// A pin holds a prompt's blocks as a second owner does: what is kept of them is a copy.
func TestKeepOfPinnedBlocks(t *testing.T) {
	r := deviceRig(t, small(Paged))
	prompt := sequence(100, 26)
	a, _ := r.serve(prompt, OpenOptions{})
	lease, err := r.pool.Pin(prompt, 1<<40, OpenOptions{})
	require.NoError(t, err)
	list := sinksAndRecent(26, 4, 6)
	require.NoError(t, a.seq.Retain(r.s, list, RetainOptions{}))
	want := newHistory(2)
	want.add(contentOf(a.want))
	want.keep(list, RetainOptions{})
	r.expectHistory(r.s, a.seq, want)
	require.Equal(t, 24, r.matched(prompt, OpenOptions{}))
	require.NoError(t, a.seq.Release())
	require.NoError(t, r.pool.Unpin(lease))
	x, m := r.serve(prompt, OpenOptions{})
	require.Equal(t, 24, m.Cached)
	r.check(r.s, x)
	require.NoError(t, x.seq.Release())
	r.close()
}
