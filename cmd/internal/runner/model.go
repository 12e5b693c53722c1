package runner

import (
	"cmp"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Config is the shape of a model, as its file describes it.
type Config struct {
	Family     string // the architecture, as Hugging Face calls it
	Dim        int    // elements of a token's hidden state
	Layers     int
	Vocab      int
	Context    int // tokens the model was made for
	Eps        float32
	UnitNorm   bool     // the weights of norms are stored less 1
	PostNorms  bool     // what sublayers add is normed, too
	FFN        string   // in front of the names of feed-forward weights
	EmbedScale float32  // factor of embeddings; 0: 1
	LogitCap   float32  // > 0: logit = LogitCap·tanh(logit/LogitCap)
	Tied       bool     // the output matrix is the embedding
	BOS        uint32   // begins a text; NoToken: nothing does
	EOS        []uint32 // each ends a text
	Block               // what layers are
	Blocks     []Block  // each layer, where not all are Block
	// ScaleBlock is the rows and columns of a matrix in F8_E4M3 that share a scale; 0: the whole matrix does.
	ScaleBlock [2]int
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
	Scale    float32 // factor of query·key; 0: 1/√HeadDim
	SoftCap  float32 // of query·key
	// The query at position p is multiplied by 1 + WarmScale·ln(1 + ⌊(p+1)/WarmFloor⌋), as Llama 4 does in layers without
	// positions; 0: not.
	WarmFloor int
	WarmScale float64
	QKVBias   bool
	OBias     bool
	QKNorm    bool   // of queries and keys, head by head, before they rotate
	PlainQK   bool   // without weights
	Sinks     bool   // a logit for each head that has no value (attention sinks of gpt-oss)
	Gated     bool   // outputs are multiplied by the sigmoid of a projection
	Latent    latent // what is one head of keys [Latent.KV+Latent.Rotated] that has its values in it
	Delta     delta
	Hidden    int // elements inside of the feed-forward block
	Act       string
	Experts   experts
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

// check fails for what no model can have, of sizes that are in their ranges. Afterwards products of two sizes of a layer do
// not overflow.
func (s *settings) check(c *Config) {
	s.need(c.Eps > 0 && c.Eps < 1, "norm epsilon", "have %v, need a number between 0 and 1", c.Eps)
	cap := min(c.SoftCap, c.LogitCap)
	s.need(cap >= 0, "soft cap", "have %v, need a positive number", cap)
	for _, token := range append([]uint32{c.BOS}, c.EOS...) {
		known := uint64(token) < uint64(c.Vocab) || token == NoToken
		s.need(known, "special tokens", "have token %d in a vocabulary of %d", token, c.Vocab)
	}
	for l := range max(len(c.Blocks), 1) {
		b := c.block(l)
		d := &b.Delta
		s.need(b.Heads%b.KVHeads == 0, "key-value heads", "have %d, which does not divide the %d heads", b.KVHeads, b.Heads)
		s.need(d.ValueHeads%max(d.KeyHeads, 1) == 0, "linear value heads",
			"have %d, no multiple of the %d key heads", d.ValueHeads, d.KeyHeads)
		s.need(b.Scale >= 0 && !math.IsInf(float64(b.Scale), 0), "scale of attention", "have %v, need a positive number", b.Scale)
		_, err := b.RoPE.Resolve(b.HeadDim)
		s.need(err == nil || b.NoRoPE, "rope", "%v", err)
	}
}

// Model is a model's configuration and weights: matrices [outputs, inputs] in the type that their file has, all else in
// float32. It is not changed by running it, so it may be used by several runners at once.
type Model struct {
	Config
	Embed  *product.Matrix // [Vocab, Dim]
	Layers []Layer
	Norm   []float32       // [Dim]
	Output *product.Matrix // [Vocab, Dim]; the same as Embed where Tied
	Size   int             // bytes of the files of the weights
	// Parameters is how many weights these files have.
	Parameters int
	Types      map[string]int // how many tensors of the files are in a type, by its name
	// Digest is a SHA-256 of the configuration and of the files of the weights, which it reads when it is first called. The
	// same weights in another format have another one. nil: there are no files.
	Digest func() []byte

	path string       // of the files, which are mapped
	end  func() error // of the mappings; nil: there are none
}

// Close ends the use of the model's files. The model, and runners of it, must not be used afterwards.
func (m *Model) Close() error {
	if m.end == nil {
		return nil
	}
	return m.end()
}

// Layer is the weights of one layer; those of what its Block leaves out are nil.
type Layer struct {
	AttnNorm, FFNNorm []float32 // [Dim]
	PostAttn, PostFFN []float32 // [Dim], of what the sublayers add
	Q, K, V           Matrix    // [heads*HeadDim, Dim], or with Latent the width of what is compressed
	O                 Matrix    // [Dim, Heads*ValueDim]
	Gate              Matrix    // [Heads*HeadDim, Dim], of the outputs
	QNorm, KNorm      []float32 // [HeadDim]
	Sinks             []float32 // [Heads]
	Latent            latentWeights
	Delta             deltaWeights
	FFN               FeedForward // or the shared expert
	Experts           expertWeights
}

// FeedForward is the weights of a gated block.
type FeedForward struct {
	Gate, Up Matrix // [hidden, Dim]; without Up, Gate is [2*hidden, Dim], whose rows are a gate and an up by turns
	Down     Matrix // [Dim, hidden]
}
