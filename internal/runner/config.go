package runner

import (
	"cmp"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Config is the shape of a model, as its file describes it.
type Config struct {
	Dim        int // elements of a token's hidden state
	Layers     int
	Vocab      int
	Context    int // tokens the model was made for
	Eps        float32
	UnitNorm   bool     // the weights of norms are stored less 1
	EmbedScale float32  // factor of embeddings; 0: 1
	LogitCap   float32  // > 0: logit = LogitCap·tanh(logit/LogitCap)
	Tied       bool     // the output matrix is the embedding
	BOS        uint32   // begins a text; NoToken: nothing does
	EOS        []uint32 // each ends a text
	Names      naming   // of the weights
	Block               // what layers are
	Blocks     []Block  // each layer, where not all are Block
}

// NoToken is the BOS of a model that has none.
const NoToken = math.MaxUint32

// Block is what one layer computes. What is 0 or false is left out.
type Block struct {
	Kind     group.Kind // which tokens a query sees
	Span     int        // tokens of the window or of a chunk
	Heads    int        // query heads
	KVHeads  int        // key and value heads; Heads is a multiple
	HeadDim  int
	ValueDim int // of a value head; 0: HeadDim
	RoPE     backend.RoPE
	NoRoPE   bool
	Scale    float32     // factor of query·key; 0: 1/√HeadDim
	SoftCap  float32     // of query·key
	Warm     temperature // of queries far out
	QKVBias  bool
	OBias    bool
	QKNorm   qkNorm
	Sinks    bool   // a logit for each head that has no value (attention sinks of gpt-oss)
	Gated    bool   // outputs are multiplied by the sigmoid of a projection
	Latent   latent // what is one head of keys [Latent.KV+Latent.Rotated] that has its values in it
	Delta    delta
	Hidden   int // elements inside of the feed-forward block
	Act      string
	Experts  experts
}

// qkNorm says how queries and keys are normed, head by head, before they rotate.
type qkNorm uint8

const (
	noQKNorm   qkNorm = iota
	weightedQK        // RMSNorm with weights
	plainQK           // without
)

// temperature multiplies the query at position p by 1 + Scale·ln(1 + ⌊(p+1)/Floor⌋), as Llama 4 does in layers
// without positions; 0: not.
type temperature struct {
	Floor int
	Scale float64
}

// block is what a layer computes.
func (c *Config) block(layer int) *Block {
	if len(c.Blocks) == 0 {
		return &c.Block
	}
	return &c.Blocks[layer]
}

// valueDim is the elements of a value head.
func (b *Block) valueDim() int { return cmp.Or(b.ValueDim, b.HeadDim) }

// keyDim is the elements of a new key that are not values.
func (b *Block) keyDim() int { return cmp.Or(b.Latent.Rotated, b.HeadDim) }

// Stops reports whether token ends a text. A model that begins a new text has ended this one.
func (c Config) Stops(token uint32) bool {
	return token == c.BOS || slices.Contains(c.EOS, token)
}

// maxContext bounds what a file may claim, as tables are made for it.
const maxContext = 1 << 24

// size is a number of a configuration and the largest that it may be.
type size struct {
	field    string
	have, to int
}

// sizes fails for the first number that no model can have.
func (f file) sizes(all ...size) error {
	for _, s := range all {
		if s.have < 1 || s.have > s.to {
			return f.bad(s.field, "have %d, need 1 to %d", s.have, s.to)
		}
	}
	return nil
}

// check is an error naming the first value that no model can have. Afterwards products of two sizes of a layer do not overflow.
func (c Config) check(f file) error {
	err := f.sizes(size{"hidden size", c.Dim, 1 << 20}, size{"layers", c.Layers, 1 << 16},
		size{"vocabulary", c.Vocab, 1 << 24}, size{"context", c.Context, maxContext})
	for l := 0; l < max(len(c.Blocks), 1) && err == nil; l++ {
		err = c.block(l).check(f)
	}
	if err != nil {
		return err
	}
	if !(c.Eps > 0 && c.Eps < 1) {
		return f.bad("norm epsilon", "have %v, need a number between 0 and 1", c.Eps)
	}
	for _, token := range append([]uint32{c.BOS}, c.EOS...) {
		if uint64(token) >= uint64(c.Vocab) && token != NoToken {
			return f.bad("special tokens", "have token %d in a vocabulary of %d", token, c.Vocab)
		}
	}
	return nil
}

func (b *Block) check(f file) error {
	sizes := []size{{"feed-forward size", b.Hidden, 1 << 24}, {"heads", b.Heads, 1 << 16}, {"key-value heads", b.KVHeads, 1 << 16},
		{"head dim", b.HeadDim, 1 << 16}, {"value head dim", b.valueDim(), 1 << 16}}
	if b.Kind == group.Window || b.Kind == group.Chunked {
		sizes = append(sizes, size{"window", b.Span, maxContext})
	}
	if e := &b.Experts; *e != (experts{}) {
		sizes = append(sizes, size{"experts", e.Count, 1 << 12}, size{"experts of a token", e.Top, e.Count},
			size{"size of an expert", e.Hidden, 1 << 20}, size{"size of the shared expert", max(e.Shared, 1), 1 << 20})
	}
	if d := &b.Delta; *d != (delta{}) {
		sizes = append(sizes, size{"linear key heads", d.KeyHeads, 1 << 10}, size{"linear value heads", d.ValueHeads, 1 << 10},
			size{"linear key dim", d.KeyDim, 1 << 10}, size{"linear value dim", d.ValueDim, 1 << 10}, size{"linear convolution", d.Conv, 1 << 6},
			size{"linear value heads of a key head", 1 - d.ValueHeads%max(d.KeyHeads, 1), 1})
	}
	if l := &b.Latent; *l != (latent{}) {
		sizes = append(sizes, size{"rank of keys and values", l.KV, 1 << 16}, size{"rank of queries", max(l.Query, 1), 1 << 16},
			size{"rotated dims", l.Rotated, 1 << 16}, size{"dims that do not rotate", l.Plain, 1 << 16}, size{"value head dim", l.Value, 1 << 16})
	}
	err := f.sizes(sizes...)
	switch {
	case err != nil:
		return err
	case b.Heads%b.KVHeads != 0:
		return f.bad("key-value heads", "have %d, which does not divide the %d heads", b.KVHeads, b.Heads)
	case !(b.Scale >= 0) || math.IsInf(float64(b.Scale), 0):
		return f.bad("scale of attention", "have %v, need a positive number", b.Scale)
	case b.NoRoPE:
		return nil
	}
	if _, err = b.RoPE.Resolve(b.HeadDim); err != nil {
		err = f.bad("rope", "%v", err)
	}
	return err
}
