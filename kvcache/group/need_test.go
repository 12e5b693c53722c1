package group

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What who goes on after some entries needs is what a sequence of so many tokens has: the sinks, and all but the blocks
// that are gone behind them; of states the last one; and a part that keeps nothing needs nothing.
func TestNeedsAreWhatSequencesHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each := rapid.IntRange(1, 3).Draw(t, "each")
		r := Rule{Kind: rapid.SampledFrom([]Kind{Full, Window, Chunked, State, None}).Draw(t, "kind"), Block: rapid.SampledFrom([]int{1, 4}).Draw(t, "block")}
		size := each * r.Block
		switch r.Kind {
		case Window:
			r.Window, r.Sinks = rapid.IntRange(1, 30).Draw(t, "window"), rapid.IntRange(0, 9).Draw(t, "sinks")
		case Chunked:
			r.Chunk = r.Block * rapid.IntRange(1, 8).Draw(t, "chunk")
		case State:
			each, r.Block = 1, size
		}
		r.Back = rapid.IntRange(0, 12).Draw(t, "back")
		p, entries := Part{Rule: r, Each: each}, rapid.IntRange(0, 12).Draw(t, "entries")
		n, needs := entries*size, 0
		for i := range (entries + 2) * each {
			want := i < p.blocks(n) && (i < p.SinkBlocks() || i >= p.SinkBlocks()+p.Gone(n))
			switch p.Kind {
			case State:
				want = i == entries-1
			case None:
				want = false
			}
			require.Equal(t, want, p.Needs(i, entries, size), "block %d", i)
			if want {
				needs++
			}
		}
		require.Equal(t, p.Need(n), needs)
	})
}
