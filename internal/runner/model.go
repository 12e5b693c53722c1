package runner

import "github.com/ferrumkv/ferrumkv/internal/product"

// Model is a model's configuration and weights: matrices [outputs, inputs] in the type that their file has, all else in
// float32. It is not changed by running it, so it may be used by several runners at once.
type Model struct {
	Config
	Embed  *product.Matrix // [Vocab, Dim]
	Layers []Layer
	Norm   []float32       // [Dim]
	Output *product.Matrix // [Vocab, Dim]; the same as Embed where Tied
	Size   int             // bytes of the files of the weights
	// Digest is the SHA-256 of the configuration and of the files of the weights. The
	// same weights in another format have another one.
	Digest []byte
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
	Gate, Up Matrix // [hidden, Dim]
	Down     Matrix // [Dim, hidden]
}
