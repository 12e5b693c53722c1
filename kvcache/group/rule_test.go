package group

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sees reports whether the query at position p reads the token at position at: what the rules mean.
func (r *Rule) sees(p, at int) bool {
	switch {
	case at > p || r.Kind == State || r.Kind == None:
		return false
	case r.Kind == Window:
		return at > p-r.Window || at < r.Sinks
	case r.Kind == Chunked:
		return at/r.Chunk == p/r.Chunk
	}
	return true
}

// needs are the blocks, by number, that a sequence of n tokens has use for: of a token that a query sees that may come,
// and those that are begun and will be gone on with. Up to Back tokens may be taken back.
func (r *Rule) needs(n int) []bool {
	out := make([]bool, (n+r.Block-1)/r.Block)
	for p := max(n-r.Back, 0); p <= n; p++ { // later ones see no more of what there is
		for at := range n {
			if r.sees(p, at) || r.Kind < State && p/r.Block == at/r.Block {
				out[at/r.Block] = true
			}
		}
	}
	return out
}

// sinks is how many blocks have a token that all queries see.
func (r *Rule) sinks() (n int) {
	for r.Kind == Window && n*r.Block < r.Sinks {
		n++
	}
	return n
}

// gone is how many of the blocks behind the sinks a sequence of n tokens has no use for.
func (r *Rule) gone(n int) (gone int) {
	for i, needed := range r.needs(n) {
		if i >= r.sinks() && !needed && r.Kind < State {
			gone++
		}
	}
	return gone
}

func drawRule(t *rapid.T) (r Rule, n int) {
	r.Kind = rapid.SampledFrom([]Kind{Full, Window, Chunked, State, None}).Draw(t, "kind")
	r.Block = rapid.IntRange(1, 5).Draw(t, "block")
	r.Window = rapid.IntRange(1, 17).Draw(t, "window")
	r.Sinks = rapid.IntRange(0, 11).Draw(t, "sinks")
	r.Chunk = rapid.IntRange(1, 13).Draw(t, "chunk")
	r.Back = rapid.IntRange(0, 5).Draw(t, "back")
	return r, rapid.IntRange(0, 48).Draw(t, "tokens")
}

// What a rule says is what queries see.
func TestRulesMatchWhatQueriesSee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, n := drawRule(t)
		require.Equal(t, r.sinks(), r.SinkBlocks())
		require.Equal(t, r.gone(n), r.Gone(n))
		blocks := 0
		for i, needed := range r.needs(n) {
			gone := i >= r.sinks() && i < r.sinks()+r.gone(n)
			if r.Kind < State && i >= r.sinks() {
				require.Equal(t, !gone, needed, "those that are needed are the last ones")
				require.Equal(t, needed, i >= r.First(n))
				require.Equal(t, needed, r.Reads(i, n))
			}
			if r.Kind < State && !gone {
				blocks++
			}
		}
		require.False(t, r.Reads((n+r.Block-1)/r.Block, n))
		if r.Kind == State && n > 0 {
			blocks = 1
		}
		require.Equal(t, blocks, r.Need(n))
	})
}

// First is no later than what the first query sees that may come, and no earlier.
func TestFirstIsWhatIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, n := drawRule(t)
		r.Kind = rapid.SampledFrom([]Kind{Full, Window, Chunked}).Draw(t, "attends")
		r.Sinks = 0
		first := n // the first position that some query sees
		for p := n + 20; p >= max(n-r.Back, 0); p-- {
			for at := range p + 1 {
				if r.sees(p, at) {
					first = min(first, at)
				}
			}
		}
		require.Equal(t, first/r.Block, r.First(n))
	})
}

// A sequence that lacks blocks goes on after its first n tokens if none that is seen there is among them, and if what
// it has begins no later.
func TestReachesMatchesWhatQueriesSee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, n := drawRule(t)
		gone := rapid.IntRange(0, 12).Draw(t, "gone")
		reaches := func(n int) bool {
			now := r
			now.Back = 0
			for i, needed := range now.needs(n) {
				if needed && i >= r.sinks() && i < r.sinks()+gone {
					return false
				}
			}
			return gone == 0 || r.Kind != Full && r.sinks()+gone <= n/r.Block
		}
		if r.Kind >= State {
			gone = 0 // they lack none
		}
		require.Equal(t, reaches(n), r.Reaches(gone, n))
		most := n
		for !reaches(most) && most > 0 {
			most--
		}
		require.Equal(t, most, r.Resumable(gone, n))
	})
}

// Blocks stay findable if somebody who shares no more than up to a border reads them there.
func TestKeepsMatchesWhatIsReadAtBorders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _ := drawRule(t)
		r.Kind = rapid.SampledFrom([]Kind{Window, Chunked}).Draw(t, "may go")
		r.Sinks = 0
		i, every := rapid.IntRange(0, 20).Draw(t, "number"), rapid.IntRange(0, 7).Draw(t, "every")
		want := every == 1
		for border := every; every > 1 && border < 60; border += every {
			if border > i && r.needs(border * r.Block)[i] {
				want = true
			}
		}
		require.Equal(t, want, r.Keeps(i, every))
	})
}

// A8: a sequence never has more blocks than were predicted, nor fewer.
func TestA8PredictedNeed(t *testing.T) {
	r := Rule{Kind: Window, Block: 2, Window: 8}
	want := map[int]int{4: 2, 8: 4, 12: 4, 16: 4}
	w := newWorld(t, 12, 8, Config{Parts: []Part{{Rule: r, Each: 1}}})
	u := w.open("a")
	for n := 1; n <= 16; n++ {
		require.True(t, w.grow(u, "\x01", false))
		require.Equal(t, r.Need(n), w.pages.Held(), n)
		if blocks, named := want[n]; named {
			require.Equal(t, blocks, r.Need(n))
		}
	}
	for n := 4; n <= 16; n += 4 { // all at once
		v := w.open("b")
		require.True(t, w.grow(v, "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"[:n], false))
		require.Len(t, v.lists[0].blocks, want[n])
		w.give(v)
	}
	w.give(u)
	w.end()
}
