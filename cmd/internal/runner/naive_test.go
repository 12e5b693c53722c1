package runner

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
)

// naive is the model in float64 and as plainly as possible, with nothing of the
// library: what the runner's logits are held against.
type naive struct {
	m    *Model
	k, v [][][]float64 // [layer][token][KVHeads*HeadDim], keys rotated
}

func newNaive(m *Model) *naive {
	return &naive{m: m, k: make([][][]float64, len(m.Layers)), v: make([][][]float64, len(m.Layers))}
}

// step appends a token and returns the logits after it.
func (n *naive) step(token uint32) []float64 {
	m := n.m
	x, row := make([]float64, m.Dim), make([]float32, m.Dim)
	m.Embed.Row(row, int(token))
	for i, v := range row {
		x[i] = float64(v)
	}
	for l := range m.Layers {
		w := &m.Layers[l]
		h := n.norm(x, w.AttnNorm)
		q, k, v := times(w.Q.Matrix, h), times(w.K.Matrix, h), times(w.V.Matrix, h)
		pos := len(n.k[l])
		n.rotate(q, pos)
		n.rotate(k, pos)
		n.k[l], n.v[l] = append(n.k[l], k), append(n.v[l], v)
		add(x, times(w.O.Matrix, n.attend(l, q)))

		h = n.norm(x, w.FFNNorm)
		gate, up := times(w.FFN.Gate.Matrix, h), times(w.FFN.Up.Matrix, h)
		for i, g := range gate {
			gate[i] = g / (1 + math.Exp(-g)) * up[i]
		}
		add(x, times(w.FFN.Down.Matrix, gate))
	}
	return times(m.Output, n.norm(x, m.Norm))
}

func (n *naive) norm(x []float64, w []float32) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))+float64(n.m.Eps)) * float64(w[i])
	}
	return out
}

// rotate is RoPE without scaling.
func (n *naive) rotate(x []float64, pos int) {
	d := n.m.HeadDim
	theta := n.m.RoPE.Theta
	if theta == 0 {
		theta = 10000
	}
	for head := 0; head < len(x); head += d {
		for i := range d / 2 {
			a, b := head+i, head+i+d/2
			if n.m.RoPE.Pairing == backend.Interleaved {
				a, b = head+2*i, head+2*i+1
			}
			sin, cos := math.Sincos(float64(pos) * math.Pow(theta, -2*float64(i)/float64(d)))
			x[a], x[b] = x[a]*cos-x[b]*sin, x[a]*sin+x[b]*cos
		}
	}
}

func (n *naive) attend(l int, q []float64) []float64 {
	m := n.m
	d := m.HeadDim
	out := make([]float64, len(q))
	for head := range m.Heads {
		at := head * m.KVHeads / m.Heads * d
		scores := make([]float64, len(n.k[l]))
		top, total := math.Inf(-1), 0.0
		for t, k := range n.k[l] {
			for i := range d {
				scores[t] += q[head*d+i] * k[at+i] / math.Sqrt(float64(d))
			}
			top = math.Max(top, scores[t])
		}
		for t := range scores {
			scores[t] = math.Exp(scores[t] - top)
			total += scores[t]
		}
		for t, v := range n.v[l] {
			for i := range d {
				out[head*d+i] += scores[t] / total * v[at+i]
			}
		}
	}
	return out
}

func times(w *product.Matrix, x []float64) []float64 {
	out, row := make([]float64, w.Rows), make([]float32, w.Cols)
	for i := range out {
		w.Row(row, i)
		for j, v := range row {
			out[i] += float64(v) * x[j]
		}
	}
	return out
}

func add(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}
