package runner

import (
	"crypto/sha256"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
)

// Model is a Llama model's configuration and weights, decoded to float32. A
// matrix is [outputs, inputs]. It is not changed by running it, so it may be
// used by several runners at once.
type Model struct {
	Config
	Embed  blas32.General // [Vocab, Dim]
	Layers []Layer
	Norm   []float32      // [Dim]
	Output blas32.General // [Vocab, Dim]; shares memory with Embed where Tied
	// Digest is the SHA-256 of the configuration and of the file of the weights. The
	// same weights in another format have another one.
	Digest []byte
}

// Layer is the weights of one transformer block.
type Layer struct {
	AttnNorm, FFNNorm []float32      // [Dim]
	Q, K, V           blas32.General // [heads*HeadDim, Dim]
	O                 blas32.General // [Dim, Heads*HeadDim]
	Gate, Up          blas32.General // [Hidden, Dim]
	Down              blas32.General // [Dim, Hidden]
}

// naming is what a file format calls the weights.
type naming struct {
	embed, norm, output string
	layer               string // format of a layer's number and one of the following
	attnNorm, ffnNorm   string
	q, k, v, o          string
	gate, up, down      string
}

var huggingFace = naming{
	embed: "model.embed_tokens.weight", norm: "model.norm.weight", output: "lm_head.weight",
	layer: "model.layers.%d.%s.weight", attnNorm: "input_layernorm", ffnNorm: "post_attention_layernorm",
	q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj", o: "self_attn.o_proj",
	gate: "mlp.gate_proj", up: "mlp.up_proj", down: "mlp.down_proj",
}

var ggml = naming{
	embed: "token_embd.weight", norm: "output_norm.weight", output: "output.weight",
	layer: "blk.%d.%s.weight", attnNorm: "attn_norm", ffnNorm: "ffn_norm",
	q: "attn_q", k: "attn_k", v: "attn_v", o: "attn_output",
	gate: "ffn_gate", up: "ffn_up", down: "ffn_down",
}

// model decodes the weights that cfg needs, unless reading the archive or the
// configuration has failed. Layers are reserved one by one, so a file that claims
// more than it holds fails at the first one missing.
func (a *archive) model(cfg Config, n naming) (*Model, error) {
	err := a.err
	floats := func(name string, shape ...int) (v []float32) {
		if err == nil {
			v, err = a.floats(name, shape...)
		}
		return v
	}
	matrix := func(name string, rows, cols int) blas32.General {
		return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: floats(name, rows, cols)}
	}
	m := &Model{Config: cfg, Embed: matrix(n.embed, cfg.Vocab, cfg.Dim), Norm: floats(n.norm, cfg.Dim)}
	if m.Output = m.Embed; !cfg.Tied {
		m.Output = matrix(n.output, cfg.Vocab, cfg.Dim)
	}
	q, kv := cfg.Heads*cfg.HeadDim, cfg.KVHeads*cfg.HeadDim
	for l := 0; l < cfg.Layers && err == nil; l++ {
		in := func(part string) string { return fmt.Sprintf(n.layer, l, part) }
		m.Layers = append(m.Layers, Layer{
			AttnNorm: floats(in(n.attnNorm), cfg.Dim), FFNNorm: floats(in(n.ffnNorm), cfg.Dim),
			Q: matrix(in(n.q), q, cfg.Dim), K: matrix(in(n.k), kv, cfg.Dim), V: matrix(in(n.v), kv, cfg.Dim),
			O:    matrix(in(n.o), cfg.Dim, q),
			Gate: matrix(in(n.gate), cfg.Hidden, cfg.Dim), Up: matrix(in(n.up), cfg.Hidden, cfg.Dim),
			Down: matrix(in(n.down), cfg.Dim, cfg.Hidden),
		})
	}
	if err != nil {
		return nil, err
	}
	m.Digest = a.digest(cfg)
	return m, nil
}

// digest hashes the whole file: decoding it has taken longer.
func (a *archive) digest(cfg Config) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n", cfg)
	h.Write(a.data)
	return h.Sum(nil)
}
