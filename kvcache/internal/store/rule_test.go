package store

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// What parts ask of kinds is what was written out for every kind.
func TestPartsAskTheirKinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := group.Rule{Kind: rapid.SampledFrom([]group.Kind{group.Full, group.Window, group.Chunked, group.State, group.None}).Draw(t, "kind"),
			Block: rapid.IntRange(1, 5).Draw(t, "block"), Back: rapid.IntRange(0, 5).Draw(t, "back")}
		piece := 0
		switch r.Kind {
		case group.Window:
			r.Window, r.Sinks = rapid.IntRange(1, 17).Draw(t, "window"), rapid.IntRange(0, 11).Draw(t, "sinks")
		case group.Chunked:
			r.Chunk = rapid.IntRange(1, 13).Draw(t, "chunk")
			piece = r.Chunk
		}
		p, step := &Part[buffer]{Rule: r}, rapid.IntRange(0, 9).Draw(t, "step")
		p.Config.Memory.Capacity = rapid.IntRange(1, 60).Draw(t, "capacity")
		want := p.Config.Memory.Capacity
		switch r.Kind {
		case group.Window:
			want = min((r.SinkBlocks()+1)*r.Block+r.Window-1+r.Back+step, want)
		case group.Chunked:
			want = min(r.Chunk+r.Back+r.Block+step, want)
		}
		require.Equal(t, want, p.MostTokens(step))
		require.Equal(t, r.Kind == group.Window || r.Kind == group.Chunked, p.Slides())
		require.Equal(t, piece, p.Piece())
	})
}
