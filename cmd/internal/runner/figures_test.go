package runner

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tinymodel"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

// figure is a tiny model, and what another program computes of it in float64.
type figure struct{ *tinymodel.Model }

func figures(testing.TB) (all []figure) {
	for _, m := range tinymodel.All() {
		all = append(all, figure{m})
	}
	return all
}

func (f figure) load(t testing.TB, spelling string) *Model {
	m, tok, err := LoadFS(f.Folder(spelling), ".")
	require.NoError(t, err, "%s, transformers %s", f.Name, spelling)
	require.NotNil(t, tok, "tokens are bytes")
	return m
}

// onlyPaged reports whether the model has layers that the contiguous layout does not hold.
func onlyPaged(m *Model) bool {
	cfg, err := m.Complete(kvcache.Config{}, func(int) []float32 { return nil })
	return err == nil && cfg.Memory.Layout == kvcache.Paged
}

func cacheOf(layout kvcache.Layout, dt backend.DType) kvcache.Config {
	return kvcache.Config{Storage: kvcache.Storage{K: dt}, Memory: kvcache.Memory{Layout: layout, Capacity: 256, MaxSeqs: 3}}
}

// feed computes tokens in steps and gives the logits [vocab] after each of them to see, with its position.
func feed[B backend.Buffer](t testing.TB, r *Runner[B], seq *kvcache.Sequence[B], tokens []uint32, step int, see func(at int, logits []float32)) {
	for len(tokens) > 0 {
		at, n := seq.Len(), seq.Piece(min(step, len(tokens)))
		logits, err := r.Forward([]Work[B]{{Seq: seq, Tokens: tokens[:n]}}, true)
		require.NoError(t, err)
		for i := range n {
			see(at+i, logits.Row(i))
		}
		tokens = tokens[n:]
	}
}

// off is by how much logits at a position differ from the figure's, at most, as a part of the largest; 0 where it has none.
func (f figure) off(at int, logits []float32) (most float64) {
	row := slices.Index(f.Positions, at)
	for i, column := range f.Columns {
		if row < 0 {
			break
		}
		d := (float64(logits[column]) - f.Logits[row][i]) / f.Largest
		if most = max(most, d, -d); d != d {
			return 1
		}
	}
	return most
}

// measure runs the whole text and is the largest difference.
func measure[B backend.Buffer](t testing.TB, f figure, be backend.Backend[B], m *Model, cfg kvcache.Config, step int) (most float64) {
	r := newRunner(t, be, m, Options{Cache: cfg})
	seq, _, err := r.Pool().Open(f.Text(), kvcache.OpenOptions{NoReuse: true})
	require.NoError(t, err)
	seen := 0
	feed(t, r, seq, f.Text(), step, func(at int, logits []float32) {
		if slices.Contains(f.Positions, at) {
			seen++
		}
		most = max(most, f.off(at, logits))
	})
	require.Equal(t, len(f.Positions), seen)
	require.NoError(t, seq.Release())
	return most
}

// mistakes are changes of a model that the figures must not agree with. Each reports whether it applies.
var mistakes = map[string]func(m *Model) bool{
	"window": inBlocks(func(b *Block) bool { // by one token, or a chunk of another length
		return b.Span > 0 && change(&b.Span, map[bool]int{true: b.Span + 1, false: b.Span + 16}[b.Kind == 1])
	}),
	"mask": inBlocks(func(b *Block) bool { // windows and chunks see everything, what sees everything has a window
		switch b.Kind {
		case 0:
			b.Kind, b.Span = 1, 100
		case 1, 2:
			b.Kind, b.Span = 0, 0
		}
		return b.Kind < 3
	}),
	"rope":  inBlocks(func(b *Block) bool { return !b.NoRoPE && change(&b.RoPE.Theta, 1.1*b.RoPE.Theta) }),
	"pairs": inBlocks(func(b *Block) bool { return !b.NoRoPE && change(&b.RoPE.Pairing, 1-b.RoPE.Pairing) }),
	"scaling": inBlocks(func(b *Block) bool {
		return b.RoPE.Scaling != 0 && change(&b.RoPE, backend.RoPE{Theta: b.RoPE.Theta, Dims: b.RoPE.Dims, Pairing: b.RoPE.Pairing})
	}),
	"truncate": inBlocks(func(b *Block) bool { return b.RoPE.NoTruncate && change(&b.RoPE.NoTruncate, false) }),
	"scale": inBlocks(func(b *Block) bool { // that of the dims of what is cached
		return b.Scale != 0 && change(&b.Scale, float32(1/math.Sqrt(float64(b.HeadDim))))
	}),
	"cap":               inBlocks(func(b *Block) bool { return b.SoftCap != 0 && change(&b.SoftCap, b.SoftCap/5) }),
	"temperature":       inBlocks(func(b *Block) bool { return b.WarmFloor > 0 && change(&b.WarmFloor, 0) }),
	"q and k norm":      inBlocks(func(b *Block) bool { return b.QKNorm && change(&b.QKNorm, false) }),
	"route":             inExperts(func(e *experts) bool { return change(&e.Top, e.Top+1) }),
	"route scale":       inExperts(func(e *experts) bool { return e.Scale != 0 && e.Scale != 1 && change(&e.Scale, 1) }),
	"route sum":         inExperts(func(e *experts) bool { return change(&e.Normed, !e.Normed) }),
	"route scores":      inExperts(func(e *experts) bool { return change(&e.Sigmoid, !e.Sigmoid) }),
	"groups":            inExperts(func(e *experts) bool { return e.Groups > 1 && change(&e.Groups, 1) }),
	"strength of group": inExperts(func(e *experts) bool { return e.Groups > 1 && change(&e.GroupBest, 3-e.GroupBest) }),
	"correction": func(m *Model) bool {
		had := false
		for l := range m.Layers {
			e := &m.Layers[l].Experts
			e.Correction, had = nil, had || e.Correction != nil
		}
		return had
	},
	"activation": inBlocks(func(b *Block) bool {
		return change(&b.Act, map[bool]string{true: "gelu_pytorch_tanh", false: "silu"}[b.Act == "silu"])
	}),
	"sinks": inBlocks(func(b *Block) bool { return b.Sinks && change(&b.Sinks, false) }),
	"gate":  inBlocks(func(b *Block) bool { return b.Gated && b.Kind == 0 && change(&b.Gated, false) }),
	"norm": func(m *Model) bool { // those of attention are off by 1
		for l := range m.Layers {
			m.Layers[l].AttnNorm = slices.Clone(m.Layers[l].AttnNorm)
			for i := range m.Layers[l].AttnNorm {
				m.Layers[l].AttnNorm[i]--
			}
		}
		return true
	},
	"norm after": func(m *Model) bool {
		had := m.Layers[0].PostFFN != nil
		for l := range m.Layers {
			m.Layers[l].PostFFN = nil
		}
		return had
	},
	"latent norm": func(m *Model) bool { // off by 1
		had := false
		for l := range m.Layers {
			w := &m.Layers[l].Latent
			w.KVNorm, had = slices.Clone(w.KVNorm), had || w.KVNorm != nil
			for i := range w.KVNorm {
				w.KVNorm[i]--
			}
		}
		return had
	},
	"absorbed keys":   inLatents(func(w *latentWeights) { w.Keys = append(w.Keys[1:len(w.Keys):len(w.Keys)], w.Keys[0]) }), // of the next head
	"absorbed values": inLatents(func(w *latentWeights) { w.Values = append(w.Values[1:len(w.Values):len(w.Values)], w.Values[0]) }),
	"embeddings":      func(m *Model) bool { return m.EmbedScale != 0 && change(&m.EmbedScale, 1) },
	"logit cap":       func(m *Model) bool { return m.LogitCap != 0 && change(&m.LogitCap, 0) },
	"decay": func(m *Model) bool {
		had := false
		for l := range m.Layers {
			if w := &m.Layers[l].Delta; w.Log != nil {
				w.Bias, had = make([]float32, len(w.Bias)), true
			}
		}
		return had
	},
}

func change[T any](field *T, to T) bool {
	*field = to
	return true
}

// inBlocks makes a mistake in every layer that it applies to.
func inBlocks(of func(b *Block) bool) func(m *Model) bool {
	return func(m *Model) bool {
		applies := false
		for l := range m.Config.Layers {
			applies = of(m.block(l)) || applies
		}
		return applies
	}
}

// inExperts makes a mistake in every layer with experts.
func inExperts(of func(e *experts) bool) func(m *Model) bool {
	return inBlocks(func(b *Block) bool { return b.Experts.Count > 0 && of(&b.Experts) })
}

// inLatents makes a mistake in the weights of every layer with latents.
func inLatents(of func(w *latentWeights)) func(m *Model) bool {
	return func(m *Model) bool {
		for l := range m.Layers {
			if m.block(l).Latent != (latent{}) {
				of(&m.Layers[l].Latent)
			}
		}
		return m.Latent != (latent{})
	}
}

// mistaken is a copy of m with a mistake; nil if that does not apply.
func mistaken(m *Model, name string) *Model {
	c := *m
	c.Layers, c.Blocks = slices.Clone(m.Layers), slices.Clone(m.Blocks)
	if c.Blocks == nil {
		c.Blocks = slices.Repeat([]Block{m.Block}, m.Config.Layers)
	}
	if !mistakes[name](&c) {
		return nil
	}
	return &c
}

func mistakeNames() []string { return slices.Sorted(maps.Keys(mistakes)) }
