package runner

import "github.com/ferrumkv/ferrumkv/cmd/internal/product"

// latent is multi-head latent attention (MLA, arXiv:2405.04434): queries, and keys with values, are compressed, and the part
// of a key that rotates is the same in all heads. The cache has what keys and values are compressed to, and that part after
// it: the matrices that would make keys and values from them are multiplied into queries and outputs (absorbed).
type latent struct {
	Query, KV      int // elements of what is compressed; Query 0: queries are not
	Plain, Rotated int // elements of a head's queries and keys
	Value          int // of its values
}

// latentWeights are the weights around those of Q, whose heads have what is plain and then what rotates.
type latentWeights struct {
	Query, KV         Matrix // [compressed, Dim], of keys and values with the part that rotates after them
	QueryNorm, KVNorm []float32
	Keys, Values      []*product.Matrix // of each head: [KV, Plain] for its queries, and [Value, KV] for its outputs
}

func (w *loader) latent(b *Block, out *Layer) {
	l, o, dim := &b.Latent, &out.Latent, w.cfg.Dim
	queries, each := b.Heads*(l.Plain+l.Rotated), l.Plain+l.Value
	if l.Query > 0 {
		o.Query = w.matrix("self_attn.q_a_proj", l.Query, dim, b.QKVBias)
		o.QueryNorm = w.norm("self_attn.q_a_layernorm", l.Query)
		out.Q = w.matrix("self_attn.q_b_proj", queries, l.Query, false)
	} else {
		out.Q = w.matrix("self_attn.q_proj", queries, dim, false)
	}
	o.KV = w.matrix("self_attn.kv_a_proj_with_mqa", l.KV+l.Rotated, dim, b.QKVBias)
	o.KVNorm = w.norm("self_attn.kv_a_layernorm", l.KV)
	both := w.raw("self_attn.kv_b_proj.weight", b.Heads*each, l.KV)
	for h := range b.Heads {
		o.Keys = append(o.Keys, both.rows(1, h*each, h*each+l.Plain).transposed().pack(dense{}).Matrix)
		o.Values = append(o.Values, both.rows(1, h*each+l.Plain, (h+1)*each).pack(dense{}).Matrix)
	}
	out.O = w.matrix("self_attn.o_proj", dim, b.Heads*l.Value, b.OBias)
}

// latentEps is the epsilon of the norms of what is compressed, whatever the configuration says of others.
const latentEps = 1e-6

// latent computes n rows of absorbed queries, of what keys and values are compressed to, and of what keys have after it.
func (r *Runner[B]) latent(b *Block, w *Layer, n int) {
	l, in, each := &b.Latent, r.h, b.Latent.Plain+b.Latent.Rotated
	if l.Query > 0 {
		in = r.project("compressed", &w.Latent.Query, r.h, n)
		rms(in, in, w.Latent.QueryNorm, n, latentEps)
	}
	queries, width := r.project("queries", &w.Q, in, n), l.KV+l.Rotated
	r.ofHeads(r.q.host, width, w.Latent.Keys, queries, each, n)
	for i := range n * b.Heads { // a head of a token
		copy(r.q.host[i*width+l.KV:(i+1)*width], queries[i*each+l.Plain:])
	}
	both := r.project("both", &w.Latent.KV, r.h, n)
	for t := range n {
		copy(r.v.host[t*l.KV:(t+1)*l.KV], both[t*width:])
		copy(r.k.host[t*l.Rotated:(t+1)*l.Rotated], both[t*width+l.KV:])
	}
	rms(r.v.host, r.v.host[:n*l.KV], w.Latent.KVNorm, n, latentEps)
}

// ofHeads multiplies the first elements of each head in n rows by a matrix of that head. Heads are from elements apart in src, and to in dst.
func (r *Runner[B]) ofHeads(dst []float32, to int, heads []*product.Matrix, src []float32, from, n int) {
	for h, m := range heads {
		in, out := r.floats("head", n*m.Cols), r.floats("product", n*m.Rows)
		for t := range n {
			copy(in[t*m.Cols:(t+1)*m.Cols], src[(t*len(heads)+h)*from:])
		}
		r.multiply(out, m, in, n)
		for t := range n {
			copy(dst[(t*len(heads)+h)*to:], out[t*m.Rows:(t+1)*m.Rows])
		}
	}
}
