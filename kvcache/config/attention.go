package config

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Attention is how attention is computed over the cache, and whether attention scores are kept.
type Attention struct {
	// Scores keeps attention scores for each token and KV head in all layers, for eviction:
	// 4 bytes each, and a second pass over the keys in steps with Batch.AccumulateScores,
	// which is then on from the start.
	Scores bool `json:"scores,omitzero"`
	// MinShared is the fewest common tokens, in blocks that several sequences of a step share,
	// that attention reads once for all of them. 0: the device decides (never with
	// cpu.Options.Reproducible), −1: never. See backend.AttendShape.
	MinShared int `json:"min_shared,omitzero"`
	// Int8Query rounds queries to int8, too, where keys are quantized, and on some devices softmax
	// weights (see backend.AttendParams): faster and less exact. It needs a device that has K in
	// backend.Caps.Int8Query.
	Int8Query bool `json:"int8_query,omitzero"`
}

func (a *Attention) check() error {
	return checkRanges("Attention", []bounded{{"MinShared", a.MinShared, -1}})
}

// content writes what decides the outputs of a layer, and so what the layers above it store.
func (a *Attention) content(t *keytext.Text, keys backend.DType) {
	t.Line("int8-query", keytext.Flag(a.Int8Query && keys.Quantized()))
}
