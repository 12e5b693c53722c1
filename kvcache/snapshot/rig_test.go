package snapshot

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
	"github.com/stretchr/testify/require"
)

const content = `ferrumkv content 2
numerics 1
model 0x01
layers 3
layer 0
keys f16 bits=16 codes=binary
residual 0
layer 2
layer-kind state
state-bytes 5
`

// sample is a head with all that one can have.
func sample() *Head {
	return &Head{
		Content: content,
		Scopes:  []prefix.Scope{{}, {Salt: []byte{}, Adapter: &prefix.Adapter{ID: "a", Version: "1"}}, {Salt: []byte("salt")}},
		Strips: []Strip{
			{Kind: Stored, Group: 1, Tokens: 4, Layers: []Layer{
				{0, []Plane{{Keys, PerRow, 2, 3}, {KeyScales, PerChunk, 2, 4}, {Values, PerRow, 2, 2}, {Scores, PerRow, 2, 4}}},
				{1, []Plane{{Keys, PerRow, 1, 1}}}}},
			{Kind: Computed, Keeps: 1, Group: 1, Tokens: 4, Layers: []Layer{{0, []Plane{{Keys, PerRow, 1, 4}, {Values, PerRow, 1, 4}}}}},
			{Kind: State, Keeps: 3, Group: 2, Tokens: 4, Layers: []Layer{{2, []Plane{{States, PerLayer, 1, 5}}}}},
		},
		Sequences: []Sequence{
			{Len: 7, Next: 7, Tokens: []uint32{1, 2, 3, 4, 5, 6, 1 << 31}, Strips: [][]Run{
				{{0, []Ref{{0, 4}, {2, 3}}}}, {{4, []Ref{{1, 3}}}}, {{0, []Ref{{3, 4}}}, {0, []Ref{{4, 7}}}}}},
			{Scope: 2, Private: true, Len: 5, Next: 5, Draft: 1, Prompt: 6, Tokens: []uint32{1, 2, 3, 4, 9, 9},
				Items: []prefix.Item{{Begin: 1, End: 3, Hash: []byte("dog")}}, Spans: []prefix.Span{{Begin: 1, End: 3}},
				Strips: [][]Run{{{0, []Ref{{0, 4}, {6, 1}}}}, nil, {{0, []Ref{{3, 4}}}, {0, []Ref{{5, 5}}}}}},
			{Scope: 1, Silent: true, Fidelity: prefix.Evicted, Len: 3, Next: 9, Positions: [][]int{{0, 1, 8}, {0, 7, 8}, {2, 3, 4}},
				Strips: [][]Run{{{0, []Ref{{9, 1}}}, {2, []Ref{{7, 1}}}}, nil, {{0, []Ref{{8, 3}}}}}},
			{Next: 4, Positions: [][]int{{}}, Strips: [][]Run{nil, nil, nil}},
		},
		Notes: []Note{{"example.org/x", []byte("hello")}, {"empty", []byte{}}},
	}
}

// codings are all ways to store a stream.
var codings = []Options{{}, {Compressor: zstd.Compressor{}}, {Secret: secret}, {Compressor: zstd.Compressor{}, Secret: secret}}

// secret is that of the golden files, too (scripts/check-snapshot).
var secret = func() (b []byte) {
	for i := range seal.SecretBytes {
		b = append(b, byte(0x80+i))
	}
	return b
}()

// write writes a stream with all chunks that a head speaks of, each with some tokens more than are used where there is room.
func write(t testing.TB, h *Head, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, o)
	require.NoError(t, w.Head(h))
	for i, c := range chunks(h) {
		require.NoError(t, w.Chunk(c.Strip, c.Tokens, c.Rows), "chunk %d", i)
	}
	require.NoError(t, w.Close())
	require.EqualValues(t, b.Len(), w.Bytes())
	return b.Bytes()
}

// chunks are those of a head, with bytes that differ.
func chunks(h *Head) (all []Chunk) {
	at := map[int]int{}
	for _, s := range h.Sequences {
		for strip, runs := range s.Strips {
			for _, run := range runs {
				for _, ref := range run.Refs {
					i, there := at[ref.Chunk]
					if !there {
						i = len(all)
						at[ref.Chunk] = i
						all = append(all, Chunk{Number: ref.Chunk, Strip: strip})
					}
					all[i].Tokens = max(all[i].Tokens, ref.Tokens)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Chunk) int { return a.Number - b.Number })
	for i := range all {
		c := &all[i]
		c.Rows = make([]byte, h.Strips[c.Strip].Size(c.Tokens))
		for j := range c.Rows {
			c.Rows[j] = byte(31*i + 7*(j%(8+9*i))) // the first ones can be compressed
		}
	}
	return all
}

// readAll reads a stream to its end.
func readAll(r io.Reader, o Options) (*Head, []Chunk, error) {
	s := NewReader(r, o)
	h, err := s.Head()
	if err != nil {
		return nil, nil, err
	}
	var all []Chunk
	for {
		c, err := s.Chunk()
		if errors.Is(err, io.EOF) {
			return h, all, nil
		}
		if err != nil {
			return nil, nil, err
		}
		c.Rows = bytes.Clone(c.Rows)
		all = append(all, c)
	}
}
