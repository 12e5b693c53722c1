package kvcache

import (
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// After Retain, windows, chunks, sinks and ALiBi count the tokens that remain: queries see what they would if no others had been
// computed.
func TestRetainCountsWhatRemains(t *testing.T) {
	alibi := []float32{0.25, -0.125, 0.0625, 0}
	masked := func(m Mask) Config {
		c := small(Paged)
		c.Model.RoPE, c.Model.Masks = nil, []Mask{m, {}}
		return c
	}
	window, chunk := manyKinds(config.Group{Kind: group.Window, Layers: []int{0}, Window: 9}, config.Group{Layers: []int{1}}),
		manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0}, Chunk: 12}, config.Group{Layers: []int{1}})
	window.Model.Masks, chunk.Model.Masks = []Mask{{ALiBi: alibi}}, []Mask{{ALiBi: alibi}}
	for name, cfg := range map[string]Config{
		"ALiBi":              masked(Mask{ALiBi: alibi}),
		"window and sinks":   masked(Mask{Window: 6, SinkTokens: 3, ALiBi: alibi}),
		"chunks":             masked(Mask{Chunk: 6}),
		"a group of windows": window,
		"sinks of a group":   manyKinds(config.Group{Kind: group.Window, Layers: []int{0}, Window: 7, Sinks: 5}, config.Group{Layers: []int{1}}),
		"a group of chunks":  chunk,
	} {
		t.Run(name, func(t *testing.T) {
			if m := cfg.Model.Masks; len(m) > 0 && m[0].Chunk > 0 && !testDevice().Chunk {
				t.Skip("the device has no chunks in masks")
			}
			be := openDevice(t)
			w, err := newTwin(t, be, cfg)
			require.NoError(t, err)
			w.open(nil)
			require.NoError(t, w.run(deal{told: w.seqs[0], ids: sequence(1, 28)}))
			require.NoError(t, w.without([]int{9, 10, 11, 13}, RetainOptions{}))
			w.open(nil)
			require.NoError(t, w.run(deal{told: w.seqs[1], ids: w.seqs[0].ids}))
			for i := range w.seqs {
				require.NoError(t, w.run(deal{told: w.seqs[i], ids: sequence(50, 7)}))
			}
			for layer := range 2 {
				for at := 24; at < 31; at++ {
					row := func(seq int) []float32 {
						return w.gave[fmt.Sprintf("sequence %d, token %d in layer %d", seq, at, layer)]
					}
					require.NotEmpty(t, row(0))
					require.InDeltaSlice(t, row(1), row(0), 2e-5, "token %d in layer %d", at, layer)
				}
			}
			w.end()
			require.Zero(t, be.Info().Buffers)
			require.NoError(t, be.Close())
		})
	}
}
