package runner

import (
	"crypto/sha256"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/product"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Matrix is a linear map [outputs, inputs], with a bias [outputs] or without.
type Matrix struct {
	*product.Matrix
	Bias []float32
}

// dense is a matrix before it is packed.
type dense struct {
	Rows, Cols int
	Data, Bias []float32
	Type       backend.DType // that Data is stored as
	Scales     []float32     // of Int8
}

// pack is the matrix as the runner multiplies by it; an empty one where loading has failed.
func (d dense) pack() Matrix {
	if d.Data == nil {
		return Matrix{}
	}
	return Matrix{product.Pack(d.Type, d.Rows, d.Cols, d.Data, d.Scales), d.Bias}
}

// naming is what a file calls the weights that not all files call alike.
type naming struct {
	embed, norm, output string
	layer               string // format of a layer's number and one of the following
	attnNorm, ffnNorm   string
	postAttn, postFFN   string // norms of what a sublayer adds
	q, k, v, o          string
	ffn                 string // in front of the following
	gate, up, down      string
	router, expert      string // the latter in front of what experts have
	shared, sharedGate  string
}

var huggingFace = naming{
	embed: "model.embed_tokens", norm: "model.norm", output: "lm_head",
	layer: "model.layers.%d.%s", attnNorm: "input_layernorm", ffnNorm: "post_attention_layernorm",
	q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj", o: "self_attn.o_proj",
	ffn: "mlp.", gate: "gate_proj", up: "up_proj", down: "down_proj",
	router: "router", expert: "experts.", shared: "shared_expert.", sharedGate: "shared_expert_gate",
}

var ggml = naming{
	embed: "token_embd", norm: "output_norm", output: "output",
	layer: "blk.%d.%s", attnNorm: "attn_norm", ffnNorm: "ffn_norm",
	q: "attn_q", k: "attn_k", v: "attn_v", o: "attn_output",
	gate: "ffn_gate", up: "ffn_up", down: "ffn_down",
}

// loader decodes weights until one is missing or has another shape.
type loader struct {
	*archive
	cfg   *Config
	layer int // of the names below; −1: the model's own
}

func (w *loader) name(part string) string {
	if w.layer < 0 {
		return part
	}
	return fmt.Sprintf(w.cfg.Names.layer, w.layer, part)
}

// raw is a tensor that is named in full.
func (w *loader) raw(part string, shape ...int) []float32 { return w.floats(w.name(part), shape...) }

// norm is the weights of a norm; nil for one that the model has no name for.
func (w *loader) norm(part string, n int) []float32 {
	if part == "" {
		return nil
	}
	v := w.raw(part+".weight", n)
	if w.cfg.UnitNorm {
		for i := range v {
			v[i]++
		}
	}
	return v
}

func (w *loader) matrix(part string, rows, cols int, bias bool) Matrix {
	return w.dense(part, rows, cols, bias).pack()
}

func (w *loader) dense(part string, rows, cols int, bias bool) dense {
	d := dense{Rows: rows, Cols: cols, Data: w.raw(part+".weight", rows, cols)}
	d.Type, d.Scales = w.stored(w.name(part + ".weight"))
	if bias {
		d.Bias = w.raw(part+".bias", rows)
	}
	return d
}

// transposed is m without its bias; values of Q8_0, whose scales are those of rows, become f32.
func (m dense) transposed() dense {
	out := dense{Rows: m.Cols, Cols: m.Rows, Type: m.Type, Data: make([]float32, len(m.Data))}
	if m.Scales != nil {
		out.Type = backend.F32
	}
	for i, v := range m.Data {
		out.Data[i%m.Cols*m.Rows+i/m.Cols] = v
	}
	return out
}

// rows is those of m in the ranges, of each of the heads that m has so many of, one range of all heads after the
// other's of the same head.
func (m dense) rows(heads int, ranges ...[2]int) dense {
	if m.Data == nil { // loading has failed
		return m
	}
	each, scales, out := m.Rows/heads, len(m.Scales)/m.Rows, dense{Cols: m.Cols, Type: m.Type}
	for h := range heads {
		for _, r := range ranges {
			from, to := h*each+r[0], h*each+r[1]
			out.Data = append(out.Data, m.Data[from*m.Cols:to*m.Cols]...)
			out.Scales = append(out.Scales, m.Scales[from*scales:to*scales]...)
			out.Rows += to - from
			if m.Bias != nil {
				out.Bias = append(out.Bias, m.Bias[from:to]...)
			}
		}
	}
	return out
}

// feedForward is a gated block of so many inner elements, whose names begin with part.
func (w *loader) feedForward(part string, hidden int) FeedForward {
	n, dim := &w.cfg.Names, w.cfg.Dim
	return FeedForward{Gate: w.matrix(part+n.gate, hidden, dim, false), Up: w.matrix(part+n.up, hidden, dim, false), Down: w.matrix(part+n.down, dim, hidden, false)}
}

// attention is the weights of a layer that attends.
func (w *loader) attention(b *Block, out *Layer) {
	n, q, kv, dim := &w.cfg.Names, b.Heads*b.HeadDim, b.KVHeads*b.HeadDim, w.cfg.Dim
	if b.Gated {
		both := w.dense(n.q, 2*q, dim, b.QKVBias)
		out.Q, out.Gate = both.rows(b.Heads, [2]int{0, b.HeadDim}).pack(), both.rows(b.Heads, [2]int{b.HeadDim, 2 * b.HeadDim}).pack()
	} else {
		out.Q = w.matrix(n.q, q, dim, b.QKVBias)
	}
	out.K, out.V = w.matrix(n.k, kv, dim, b.QKVBias), w.matrix(n.v, b.KVHeads*b.valueDim(), dim, b.QKVBias)
	out.O = w.matrix(n.o, dim, b.Heads*b.valueDim(), b.OBias)
	if b.QKNorm == weightedQK {
		out.QNorm, out.KNorm = w.norm("self_attn.q_norm", b.HeadDim), w.norm("self_attn.k_norm", b.HeadDim)
	}
	if b.Sinks {
		out.Sinks = w.raw("self_attn.sinks", b.Heads)
	}
}

// model decodes the weights that cfg needs, unless reading the archive or the configuration has failed. Layers are reserved one
// by one, so a file that claims more than it holds fails at the first one missing.
func (a *archive) model(cfg Config) (*Model, error) {
	w, n := &loader{a, &cfg, -1}, &cfg.Names
	m := &Model{Config: cfg, Embed: w.matrix(n.embed, cfg.Vocab, cfg.Dim, false).Matrix, Norm: w.norm(n.norm, cfg.Dim)}
	if m.Output = m.Embed; !cfg.Tied {
		m.Output = w.matrix(n.output, cfg.Vocab, cfg.Dim, false).Matrix
	}
	for w.layer = 0; w.layer < cfg.Layers && w.err == nil; w.layer++ {
		b, l := cfg.block(w.layer), Layer{AttnNorm: w.norm(n.attnNorm, cfg.Dim), FFNNorm: w.norm(n.ffnNorm, cfg.Dim)}
		l.PostAttn, l.PostFFN = w.norm(n.postAttn, cfg.Dim), w.norm(n.postFFN, cfg.Dim)
		switch {
		case b.Kind == group.State:
			w.delta(b, &l)
		case b.Latent != (latent{}):
			w.latent(b, &l)
		default:
			w.attention(b, &l)
		}
		if b.Experts != (experts{}) {
			w.experts(b, &l)
		} else {
			l.FFN = w.feedForward(n.ffn, b.Hidden)
		}
		m.Layers = append(m.Layers, l)
	}
	if w.err != nil {
		return nil, w.err
	}
	h := sha256.New() // of all files: decoding them has taken longer
	fmt.Fprintf(h, "%+v\n", cfg)
	for _, data := range a.files {
		m.Size += len(data)
		h.Write(data)
	}
	m.Digest = h.Sum(nil)
	return m, nil
}
