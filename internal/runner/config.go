package runner

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Config is the shape of a model, as its file describes it.
type Config struct {
	Dim     int // elements of a token's hidden state
	Hidden  int // elements inside of the feed-forward block
	Layers  int
	Heads   int // query heads
	KVHeads int // key and value heads; Heads is a multiple
	HeadDim int
	Vocab   int
	Context int // tokens the model was made for
	Eps     float32
	RoPE    backend.RoPE
	Tied    bool     // the output matrix is the embedding
	BOS     uint32   // begins a text
	EOS     []uint32 // each ends a text
}

// Stops reports whether token ends a text. A model that begins a new text has
// ended this one.
func (c Config) Stops(token uint32) bool {
	return token == c.BOS || slices.Contains(c.EOS, token)
}

// maxContext bounds what a file may claim, as tables are made for it.
const maxContext = 1 << 24

// check is an error naming the first value that no model can have. Afterwards
// products of two sizes of a layer do not overflow.
func (c Config) check(f file) error {
	for _, size := range []struct {
		field    string
		have, to int
	}{
		{"hidden size", c.Dim, 1 << 20}, {"feed-forward size", c.Hidden, 1 << 24},
		{"layers", c.Layers, 1 << 16}, {"heads", c.Heads, 1 << 16}, {"key-value heads", c.KVHeads, 1 << 16},
		{"head dim", c.HeadDim, 1 << 16}, {"vocabulary", c.Vocab, 1 << 24}, {"context", c.Context, maxContext},
	} {
		if size.have < 1 || size.have > size.to {
			return f.bad(size.field, "have %d, need 1 to %d", size.have, size.to)
		}
	}
	if c.Heads%c.KVHeads != 0 {
		return f.bad("key-value heads", "have %d, which does not divide the %d heads", c.KVHeads, c.Heads)
	}
	if !(c.Eps > 0 && c.Eps < 1) {
		return f.bad("norm epsilon", "have %v, need a number between 0 and 1", c.Eps)
	}
	if _, err := c.RoPE.Resolve(c.HeadDim); err != nil {
		return f.bad("rope", "%v", err)
	}
	for _, token := range append([]uint32{c.BOS}, c.EOS...) {
		if uint64(token) >= uint64(c.Vocab) {
			return f.bad("special tokens", "have token %d in a vocabulary of %d", token, c.Vocab)
		}
	}
	return nil
}
