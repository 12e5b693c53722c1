package runner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Matrix is a linear map [outputs, inputs], with a bias [outputs] or without.
type Matrix struct {
	*product.Matrix
	Bias []float32
}

// pack is the matrix as the runner multiplies by it; of a matrix that is not decoded it is none.
func (m dense) pack(bias dense) Matrix {
	if m.data == nil {
		return Matrix{}
	}
	return Matrix{product.Pack(m.dtype, m.shape[0], m.shape[1], m.data), bias.data}
}

// rows is the rows from one to another of each head of m.
func (m dense) rows(heads, from, to int) dense {
	each, row := m.shape[0]/heads, len(m.data)/m.shape[0]
	out := dense{shape: append([]int{heads * (to - from)}, m.shape[1:]...), dtype: m.dtype}
	for h := range heads {
		out.data = append(out.data, m.data[(h*each+from)*row:(h*each+to)*row]...)
	}
	return out
}

// transposed is the matrix m with rows for columns.
func (m dense) transposed() dense {
	rows, cols := m.shape[0], m.shape[1]
	out := dense{shape: []int{cols, rows}, dtype: m.dtype, data: slices.Clone(m.data)}
	for i, v := range m.data {
		out.data[i%cols*rows+i/cols] = v
	}
	return out
}

// loader decodes weights. They are named as in Hugging Face's Llama.
type loader struct {
	*archive
	cfg   *Config
	layer string // in front of the names below
}

// raw is a tensor that is named in full.
func (w *loader) raw(part string, shape ...int) dense { return w.dense(w.layer+part, shape...) }

// norm is the weights of a norm.
func (w *loader) norm(part string, n int) []float32 {
	v := w.raw(part+".weight", n).data
	if w.cfg.UnitNorm {
		for i := range v {
			v[i]++
		}
	}
	return v
}

// linear is a matrix and its bias, which has no elements where there is none.
func (w *loader) linear(part string, rows, cols int, biased bool) (m, bias dense) {
	m, bias = w.raw(part+".weight", rows, cols), dense{shape: []int{rows}}
	if biased {
		bias = w.raw(part+".bias", rows)
	}
	return m, bias
}

// matrix is linear as the runner multiplies by it.
func (w *loader) matrix(part string, rows, cols int, biased bool) Matrix {
	m := Matrix{Matrix: w.archive.matrix(w.find(w.layer+part+".weight", rows, cols), rows, cols)}
	if biased {
		m.Bias = w.raw(part+".bias", rows).data
	}
	return m
}

// feedForward is a gated block of hidden inner elements, whose names begin with part and, unless others are given, end as in Llama.
func (w *loader) feedForward(part string, names matrixNames, hidden int) FeedForward {
	names, dim, name := cmp.Or(names, matrixNames{"gate_proj", "up_proj", "down_proj"}), w.cfg.Dim, w.layer+part
	w.cut(name+"gate_up_proj.weight", dim, rows{name + "gate_proj.weight", hidden}, rows{name + "up_proj.weight", hidden})
	return FeedForward{w.matrix(part+names[0], hidden, dim, false), w.matrix(part+names[1], hidden, dim, false),
		w.matrix(part+names[2], dim, hidden, false)}
}

// attention is the weights of a layer that attends.
func (w *loader) attention(b *Block, out *Layer) {
	q, kv, dim := b.Heads*b.HeadDim, b.KVHeads*b.HeadDim, w.cfg.Dim
	part := func(name string, n int) rows { return rows{w.layer + "self_attn." + name + ".weight", n} }
	w.cut(w.layer+"self_attn.qkv_proj.weight", dim, part("q_proj", q), part("k_proj", kv), part("v_proj", kv))
	if b.Gated {
		both, bias := w.linear("self_attn.q_proj", 2*q, dim, b.QKVBias)
		out.Q = both.rows(b.Heads, 0, b.HeadDim).pack(bias.rows(b.Heads, 0, b.HeadDim))
		out.Gate = both.rows(b.Heads, b.HeadDim, 2*b.HeadDim).pack(bias.rows(b.Heads, b.HeadDim, 2*b.HeadDim))
	} else {
		out.Q = w.matrix("self_attn.q_proj", q, dim, b.QKVBias)
	}
	out.K, out.V = w.matrix("self_attn.k_proj", kv, dim, b.QKVBias), w.matrix("self_attn.v_proj", kv, dim, b.QKVBias)
	out.O = w.matrix("self_attn.o_proj", dim, q, b.OBias)
	if b.QKNorm && !b.PlainQK {
		out.QNorm, out.KNorm = w.norm("self_attn.q_norm", b.HeadDim), w.norm("self_attn.k_norm", b.HeadDim)
	}
	if b.Sinks {
		out.Sinks = w.raw("self_attn.sinks", b.Heads).data
	}
}

// count is the types of the tensors and the number of their elements, before any is divided. Scales are a part of what they scale.
func (a *archive) count() (types map[string]int, parameters int) {
	types = map[string]int{}
	for name, t := range a.tensors {
		if of, is := strings.CutSuffix(name, "_scale_inv"); is && a.tensors[of].scale != nil {
			continue
		}
		types[t.encoding]++
		n, _ := backend.Mul(t.shape...)
		parameters += n
	}
	return types, parameters
}

// model decodes the weights that cfg needs. Layers are reserved one by one, so a file that claims more than it holds fails at
// the first one missing.
func (a *archive) model(cfg Config) *Model {
	w := &loader{archive: a, cfg: &cfg}
	types, parameters := a.count()
	m := &Model{Config: cfg, Types: types, Parameters: parameters, Norm: w.norm("model.norm", cfg.Dim)}
	m.Embed = w.matrix("model.embed_tokens", cfg.Vocab, cfg.Dim, false).Matrix
	if m.Output = m.Embed; !cfg.Tied {
		m.Output = w.matrix("lm_head", cfg.Vocab, cfg.Dim, false).Matrix
	}
	for i := range cfg.Layers {
		w.layer = fmt.Sprintf("model.layers.%d.", i)
		b, l, ffnNorm := cfg.block(i), Layer{AttnNorm: w.norm("input_layernorm", cfg.Dim)}, "post_attention_layernorm"
		if cfg.PostNorms {
			l.PostAttn, l.PostFFN = w.norm(ffnNorm, cfg.Dim), w.norm("post_feedforward_layernorm", cfg.Dim)
			ffnNorm = "pre_feedforward_layernorm"
		}
		l.FFNNorm = w.norm(ffnNorm, cfg.Dim)
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
			l.FFN = w.feedForward(cfg.FFN, matrixNames{}, b.Hidden)
		}
		m.Layers = append(m.Layers, l)
	}
	m.Size = a.size()
	m.Digest = sync.OnceValue(func() []byte { return digest(m.path, &cfg, a.files) })
	return m
}
