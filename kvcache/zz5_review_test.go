package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// fork of a sequence queried while parent's step etc.
func TestZZPoolClose(t *testing.T) {
	w := newMixed(t, small(Paged))
	a := w.fresh()
	require.NoError(t, w.run(deal{told: a, ids: sequence(1, 6)}))
	second := w.pool.NewBatch()
	require.NoError(t, second.Query(a.seq, once(1, 6)))
	require.NoError(t, w.step.Query(a.seq, once(1, 6)))
	require.NoError(t, w.step.Plan(w.s))
	t.Log(w.pool.Check())
	t.Log(w.pool.Close())
	t.Log(second.Reset(), w.step.Reset())
}

// a span of the prompt half found; the runner names it again through AddSpans.
func TestZZSpanAgain(t *testing.T) {
	cfg := small(Paged)
	w := newMixed(t, cfg)
	prompt := []uint32{}
	for i := range 20 {
		prompt = append(prompt, uint32(i))
	}
	spans := []Span{{Begin: 6, End: 18}}
	s, _, err := w.pool.Open(prompt, OpenOptions{Spans: spans})
	require.NoError(t, err)
	t.Log("add spans whole:", w.step.AddSpans(s, prompt, spans))
	require.NoError(t, w.step.Reset())
	require.NoError(t, w.step.Add(s, prompt))
	_ = backend.F32
	_ = config.Group{}
	_ = group.Full
}

// Piece with have in a span and n small
func TestZZChunkNonCausal(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 12}, config.Group{Kind: group.Window, Layers: []int{2}, Window: 5, Sinks: 3})
	cfg.Model.NonCausal = true
	w := newMixed(t, cfg)
	s, o := w.fresh(), w.fresh()
	for range 6 {
		require.NoError(t, w.run(deal{told: s, ids: sequence(1+len(s.ids), 17)}, deal{told: o, ids: sequence(1+len(o.ids), 3)}))
		require.NoError(t, w.run(deal{told: s, ids: sequence(1+len(s.ids), 7)}, deal{told: s, ids: sequence(50, 6)}))
	}
}
