package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// What groups ask of kinds is what was written out for every kind.
func TestGroupsAskTheirKinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Group{Kind: group.Kind(rapid.IntRange(0, int(group.None)).Draw(t, "kind"))}
		own, layout := Mask{SoftCap: 3}, rapid.SampledFrom([]Layout{Paged, Contiguous}).Draw(t, "layout")
		mask := own
		var content keytext.Text
		switch g.Kind {
		case group.Full:
			own.Window, own.SinkTokens, own.Chunk = rapid.IntRange(0, 5).Draw(t, "own window"), rapid.IntRange(0, 5).Draw(t, "own sinks"), rapid.IntRange(0, 5).Draw(t, "own chunk")
			mask = own
		case group.Window:
			g.Window, g.Sinks = rapid.IntRange(1, 17).Draw(t, "window"), rapid.IntRange(0, 11).Draw(t, "sinks")
			mask.Window, mask.SinkTokens = g.Window, g.Sinks
		case group.Chunked:
			g.Chunk = rapid.IntRange(1, 13).Draw(t, "chunk")
			if layout == Contiguous {
				mask.Chunk = g.Chunk
			}
			content.Line("layer-kind", "chunked")
			content.Line("chunk", keytext.Number(g.Chunk))
		case group.State:
			g.StateBytes = rapid.IntRange(1, 1000).Draw(t, "bytes")
			content.Line("layer-kind", "state")
			content.Line("state-bytes", keytext.Number(g.StateBytes))
		case group.None:
			content.Line("layer-kind", "none")
		}
		require.NoError(t, g.checkNumbers("g"))
		require.Equal(t, g.Kind < group.State, g.attends())
		require.Equal(t, mask, g.mask(own, layout))
		residual := rapid.IntRange(0, 20).Draw(t, "residual")
		require.Equal(t, g.Kind == group.Window && g.Sinks == 0 && g.Window <= residual, g.within(residual))
		var text keytext.Text
		g.content(&text)
		require.Equal(t, string(content), string(text))
	})
}

// A number is refused by groups of kinds that do not take it, which name one that does, and where it is too small by those that do.
func TestNumbersOfOtherKinds(t *testing.T) {
	valid := map[group.Kind]Group{group.Window: {Window: 1}, group.Chunked: {Chunk: 1}, group.State: {StateBytes: 1}}
	takes := map[string]group.Kind{"Window": group.Window, "Sinks": group.Window, "Chunk": group.Chunked, "StateBytes": group.State}
	for kind := range group.None + 2 {
		for field, taker := range takes {
			g := valid[kind]
			g.Kind = kind
			number := map[string]*int{"Window": &g.Window, "Sinks": &g.Sinks, "Chunk": &g.Chunk, "StateBytes": &g.StateBytes}[field]
			if *number = 1; taker != kind {
				require.EqualError(t, g.checkNumbers("g"), "kvcache: g."+field+"=1: is for groups of kind "+taker.String()+"; this one is of kind "+kind.String())
				continue
			}
			require.NoError(t, g.checkNumbers("g"))
			if *number = 0; field != "Sinks" {
				require.EqualError(t, g.checkNumbers("g"), "kvcache: g."+field+"=0: a group of kind "+kind.String()+" needs at least 1")
			}
		}
	}
}
