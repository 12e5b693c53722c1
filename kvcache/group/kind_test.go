package group

import (
	"encoding"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// byKind is a Part as it was when each of its methods knew every kind.
type byKind Part

func (r *byKind) blocks(tokens int) int { return (tokens + r.Block - 1) / r.Block }

func (r *byKind) sinkBlocks() int {
	if r.Kind != Window {
		return 0
	}
	return r.blocks(r.Sinks)
}

func (r *byKind) first(n, back int) int {
	n = max(n-back, 0)
	switch r.Kind {
	case Window:
		return max(n-(r.Window-1), 0) / r.Block
	case Chunked:
		return (n - n%max(r.Chunk, 1)) / r.Block
	case Full:
		return 0
	}
	return r.blocks(n)
}

func (r *byKind) gone(n, back int) int {
	if r.Kind != Window && r.Kind != Chunked {
		return 0
	}
	return max(r.first(n, back)-r.sinkBlocks(), 0)
}

func (r *byKind) need(n int) int {
	switch r.Kind {
	case State:
		return min(n, 1)
	case None:
		return 0
	}
	return r.blocks(n) - r.gone(n, r.Back)
}

func (r *byKind) reaches(gone, n int) bool { return gone == 0 || r.gone(n, 0) >= gone }

func (r *byKind) sees(position int) int {
	switch r.Kind {
	case Window:
		return max(position-(r.Window-1), 0)
	case Chunked:
		return position - position%max(r.Chunk, 1)
	}
	return 0
}

func (r *byKind) keeps(block, every int) bool {
	if every <= 1 {
		return every == 1
	}
	return block >= r.first((block/every+1)*every*r.Block, r.Back)
}

func (r *byKind) needs(i, entries, size int) bool {
	switch r.Kind {
	case Full:
		return i < entries*r.Each
	case Window, Chunked:
		n := entries * size
		return i < r.blocks(n) && (i >= r.first(n, r.Back) || i < r.sinkBlocks())
	case State:
		return i == entries-1
	}
	return false
}

func (r *byKind) fits(n, tokens int, missing func(i int) bool) int {
	switch r.Kind {
	case Window, Chunked:
		for i := r.blocks(n) - 1; i >= r.first(n, r.Back); i-- {
			if missing(i) {
				n = i / r.Each * tokens
			}
		}
		for i := range min(r.sinkBlocks(), r.blocks(n)) {
			if missing(i) {
				return i / r.Each * tokens
			}
		}
	case State:
		for n > 0 && missing(n/tokens-1) {
			n -= tokens
		}
	}
	return n
}

// What follows from what a kind says is what every method said of every kind.
func TestKindsSayWhatWasWrittenOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, n := drawRule(t)
		p := Part{Rule: r, Each: rapid.IntRange(1, 3).Draw(t, "each")}
		size := p.Each * p.Block
		if r.Kind == State {
			p.Each, p.Block = 1, size
		}
		was := byKind(p)
		require.Equal(t, was.sinkBlocks(), p.SinkBlocks())
		require.Equal(t, was.first(n, p.Back), p.First(n))
		require.Equal(t, was.gone(n, p.Back), p.Gone(n))
		require.Equal(t, was.need(n), p.Need(n))
		require.Equal(t, was.sees(n), p.Sees(n))
		i, every := rapid.IntRange(0, 40).Draw(t, "block"), rapid.IntRange(0, 7).Draw(t, "every")
		require.Equal(t, i < was.blocks(n) && i >= was.first(n, p.Back), p.Reads(i, n))
		require.Equal(t, was.keeps(i, every), p.Keeps(i, every))
		entries := rapid.IntRange(0, 12).Draw(t, "entries")
		require.Equal(t, was.needs(i, entries, size), p.Needs(i, entries, size))
		gone := rapid.IntRange(0, 12).Draw(t, "gone")
		require.Equal(t, was.reaches(gone, n), p.Reaches(gone, n))
		lost := rapid.SliceOfN(rapid.IntRange(0, 40), 0, 6).Draw(t, "lost")
		missing := func(i int) bool { return slices.Contains(lost, i) }
		at := entries * size
		for fits := p.Fits(at, size, func(i int) bool { return !missing(i) }); fits < at; {
			at, fits = fits, p.Fits(fits, size, func(i int) bool { return !missing(i) })
		}
		require.Equal(t, was.fits(entries*size, size, missing), at)
	})
}

// Kinds have the names that keys and configurations have.
func TestKindsHaveNames(t *testing.T) {
	for i, name := range []string{"full", "window", "chunked", "state", "none"} {
		text, err := Kind(i).MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
		var k Kind
		require.NoError(t, encoding.TextUnmarshaler(&k).UnmarshalText(text))
		require.Equal(t, Kind(i), k)
	}
	_, err := (None + 1).MarshalText()
	require.EqualError(t, err, "prefix: kind: accepts full, window, chunked, state and none")
	require.Equal(t, "unknown", (None + 1).String())
	require.Equal(t, "unknown", Kind(255).String())
}
