package runner

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// delta is the gated delta net (arXiv:2412.06464) as Qwen3-Next has it: a short convolution over queries, keys and values, and
// for each value head a state [KeyDim, ValueDim] that forgets by a gate and is corrected by each key and value.
type delta struct {
	KeyHeads, ValueHeads int // ValueHeads is a multiple
	KeyDim, ValueDim     int
	Conv                 int // taps of the convolution
}

// deltaWeights are the weights of a gated delta net.
type deltaWeights struct {
	QKV, Z, Beta, Decay Matrix    // Z gates the output
	Conv                []float32 // [channels, taps], the newest last
	Bias, Log           []float32 // [ValueHeads], of the decay
	Norm                []float32 // [ValueDim]
}

func (d *delta) channels() int { return 2*d.KeyHeads*d.KeyDim + d.ValueHeads*d.ValueDim }

// state is the elements of a sequence's state in a layer: the inputs of the convolution before the next token, and the states of the heads.
func (d *delta) state() int { return (d.Conv-1)*d.channels() + d.ValueHeads*d.KeyDim*d.ValueDim }

func (w *loader) delta(b *Block, out *Layer) {
	d, dim, o := &b.Delta, w.cfg.Dim, &out.Delta
	group := d.ValueHeads / d.KeyHeads
	k, v := d.KeyDim, group*d.ValueDim
	all := w.raw("linear_attn.in_proj_qkvz.weight", d.KeyHeads*2*(k+v), dim)
	qkv := dense{shape: []int{d.channels(), dim}, dtype: all.dtype}
	for _, r := range [][2]int{{0, k}, {k, 2 * k}, {2 * k, 2*k + v}} { // of the file's heads, each has all three
		qkv.data = append(qkv.data, all.rows(d.KeyHeads, r[0], r[1]).data...)
	}
	o.QKV = qkv.pack(dense{})
	o.Z = all.rows(d.KeyHeads, 2*k+v, 2*(k+v)).pack(dense{})
	gates := w.raw("linear_attn.in_proj_ba.weight", 2*d.ValueHeads, dim)
	o.Beta, o.Decay = gates.rows(d.KeyHeads, 0, group).pack(dense{}), gates.rows(d.KeyHeads, group, 2*group).pack(dense{})
	o.Conv = w.raw("linear_attn.conv1d.weight", d.channels(), 1, d.Conv).data
	o.Bias, o.Log = w.raw("linear_attn.dt_bias", d.ValueHeads).data, w.raw("linear_attn.A_log", d.ValueHeads).data
	o.Norm = w.raw("linear_attn.norm.weight", d.ValueDim).data
	out.O = w.matrix("linear_attn.out_proj", dim, d.ValueHeads*d.ValueDim, false)
}

// delta computes a layer of a gated delta net for the n rows of r.h into r.out. Each sequence's state is read from the cache
// and written back.
func (r *Runner[B]) delta(l, n int) {
	b, w := r.model.block(l), &r.model.Layers[l]
	d, c := &b.Delta, b.Delta.channels()
	qkv, z := r.project("qkv", &w.Delta.QKV, r.h, n), r.project("z", &w.Delta.Z, r.h, n)
	beta, decay := r.project("beta", &w.Delta.Beta, r.h, n), r.project("decay", &w.Delta.Decay, r.h, n)
	view, err := r.steps[0].State(l)
	check(err)
	state, at := r.floats("state", d.state()), 0
	for _, call := range view.Calls {
		word := int(view.Offsets[call.Seq] / 4)
		check(backend.Download(r.be, r.stream, state, view.Buf, word))
		for t := at; t < at+call.Rows; t++ {
			out := r.out.host[t*len(w.Delta.Norm)*d.ValueHeads:][:w.Delta.Z.Rows]
			w.Delta.token(d, state, qkv[t*c:(t+1)*c], beta[t*d.ValueHeads:(t+1)*d.ValueHeads], decay[t*d.ValueHeads:], out)
			rms(out, out, w.Delta.Norm, d.ValueHeads, float64(r.model.Eps))
			for j := range out {
				g := z[t*len(out)+j]
				out[j] *= g * sigmoid(g)
			}
		}
		at += call.Rows
		check(backend.Upload(r.be, r.stream, view.Buf, word, state))
	}
}

// token goes on with a state by one token, whose inputs of the convolution are x, and writes the output of each value head.
func (w *deltaWeights) token(d *delta, state, x, beta, decay, out []float32) {
	c, past := len(x), state[:(d.Conv-1)*len(x)]
	heads := state[len(past):]
	for ch := range x {
		taps, sum := w.Conv[ch*d.Conv:(ch+1)*d.Conv], float64(w.Conv[(ch+1)*d.Conv-1])*float64(x[ch])
		for i := range d.Conv - 1 {
			sum += float64(taps[i]) * float64(past[i*c+ch])
			if past[i*c+ch] = x[ch]; i < d.Conv-2 {
				past[i*c+ch] = past[(i+1)*c+ch]
			}
		}
		x[ch] = float32(sum / (1 + math.Exp(-sum)))
	}
	keys := d.KeyHeads * d.KeyDim
	for h := range d.KeyHeads {
		unit(x[h*d.KeyDim:(h+1)*d.KeyDim], 1/math.Sqrt(float64(d.KeyDim)))
		unit(x[keys+h*d.KeyDim:][:d.KeyDim], 1)
	}
	for h := range d.ValueHeads {
		of := h * d.KeyHeads / d.ValueHeads
		q, k, v := x[of*d.KeyDim:][:d.KeyDim], x[keys+of*d.KeyDim:][:d.KeyDim], x[2*keys+h*d.ValueDim:][:d.ValueDim]
		s := heads[h*d.KeyDim*d.ValueDim:][:d.KeyDim*d.ValueDim]
		keep := float32(math.Exp(-math.Exp(float64(w.Log[h])) * softplus(float64(decay[h])+float64(w.Bias[h]))))
		rate, o := sigmoid(beta[h]), out[h*d.ValueDim:(h+1)*d.ValueDim]
		clear(o) // first what the state has for the key
		for i := range k {
			row := s[i*d.ValueDim : (i+1)*d.ValueDim]
			scale(row, keep)
			addScaled(o, row, k[i])
		}
		for j := range o {
			o[j] = (v[j] - o[j]) * rate
		}
		for i := range k {
			addScaled(s[i*d.ValueDim:(i+1)*d.ValueDim], o, k[i])
		}
		clear(o)
		for i := range q {
			addScaled(o, s[i*d.ValueDim:(i+1)*d.ValueDim], q[i])
		}
	}
}

// unit makes the length of x so much.
func unit(x []float32, length float64) {
	sum := 1e-6
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale(x, float32(length/math.Sqrt(sum)))
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
