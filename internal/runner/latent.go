package runner

// latent is multi-head latent attention (MLA, arXiv:2405.04434): queries, and keys with values, are compressed, and the part
// of a key that rotates is the same in all heads. The cache has keys and values of each head, in which the part that rotates is first.
type latent struct {
	Query, KV int // elements of what is compressed; Query 0: queries are not
	Rotated   int // elements of a head that rotate
}

// latentWeights are the weights in front of Q, and of K and V.
type latentWeights struct {
	Query, KV         Matrix // [compressed, Dim], of keys and values with the part that rotates behind
	QueryNorm, KVNorm []float32
}

func (w *loader) latent(b *Block, out *Layer) {
	l, dim, heads := &b.Latent, w.cfg.Dim, b.Heads
	plain, each := b.HeadDim-l.Rotated, b.HeadDim-l.Rotated+b.valueDim()
	in, name := dim, "self_attn.q_proj"
	if l.Query > 0 {
		out.Latent.Query, out.Latent.QueryNorm = w.matrix("self_attn.q_a_proj", l.Query, dim, b.QKVBias), w.norm("self_attn.q_a_layernorm", l.Query)
		in, name = l.Query, "self_attn.q_b_proj"
	}
	out.Q = w.dense(name, heads*b.HeadDim, in, false).rows(heads, [2]int{plain, b.HeadDim}, [2]int{0, plain}).pack()
	out.Latent.KV, out.Latent.KVNorm = w.matrix("self_attn.kv_a_proj_with_mqa", l.KV+l.Rotated, dim, b.QKVBias), w.norm("self_attn.kv_a_layernorm", l.KV)
	both := w.dense("self_attn.kv_b_proj", heads*each, l.KV, false)
	out.K, out.V = both.rows(heads, [2]int{0, plain}).pack(), both.rows(heads, [2]int{plain, each}).pack()
	out.O = w.matrix(w.cfg.Names.o, dim, heads*b.valueDim(), b.OBias)
}

// latentEps is the epsilon of the norms of what is compressed, whatever the configuration says of others.
const latentEps = 1e-6

// latent computes n rows of queries, keys and values.
func (r *Runner[B]) latent(b *Block, w *Layer, n int) {
	l, in := &b.Latent, r.h
	if l.Query > 0 {
		in = r.floats(tmpRows, n*l.Query)
		r.project(in, &w.Latent.Query, r.h, n)
		rms(in, in, w.Latent.QueryNorm, n, latentEps)
	}
	r.project(r.q.host, &w.Q, in, n)

	width := l.KV + l.Rotated
	both, compressed := r.floats(tmpScores, n*width), r.floats(tmpOut, n*l.KV)
	r.project(both, &w.Latent.KV, r.h, n)
	for t := range n {
		copy(compressed[t*l.KV:(t+1)*l.KV], both[t*width:])
	}
	rms(compressed, compressed, w.Latent.KVNorm, n, latentEps)
	r.project(r.v.host, &w.V, compressed, n)
	plain := b.HeadDim - l.Rotated
	keys := r.floats(tmpRows, n*w.K.Rows)
	r.project(keys, &w.K, compressed, n)
	for i := range n * b.Heads { // a head of a token
		row := r.k.host[i*b.HeadDim : (i+1)*b.HeadDim]
		copy(row, both[i/b.Heads*width+l.KV:][:l.Rotated])
		copy(row[l.Rotated:], keys[i*plain:(i+1)*plain])
	}
}
