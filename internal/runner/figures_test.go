package runner

import (
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/models/*.json
var figureFiles embed.FS

// figure is a tiny model and what scripts/models computes of it in float64: logits of some tokens, the columns, at some
// positions of a text. largest is the largest logit of all.
type figure struct {
	name      string
	Configs   map[string]map[string]any // as transformers 4 and 5 write it
	Tokens    int
	Positions []int
	Columns   []int
	Largest   float64
	Logits    [][]float64
	Tensors   [][]any // name with # for the layer, layers, shape, center, spread
}

func figures(t testing.TB) (all []*figure) {
	files, err := figureFiles.ReadDir("testdata/models")
	require.NoError(t, err)
	for _, file := range files {
		f := &figure{name: strings.TrimSuffix(file.Name(), ".json")}
		data, err := figureFiles.ReadFile("testdata/models/" + file.Name())
		readJSON(t, data, err, f)
		all = append(all, f)
	}
	require.NotEmpty(t, all)
	return all
}

// uniform is numbers from 0 to 1 that scripts/models/weights.py makes alike.
func uniform(name string, n int) []float64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	out := make([]float64, n)
	for i := range out {
		z := h.Sum64() + uint64(i+1)*0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		out[i] = float64((z^z>>31)>>40) / (1 << 24)
	}
	return out
}

// text is what the model reads: BOS and bytes.
func (f *figure) text() []uint32 {
	out := []uint32{256}
	for _, u := range uniform(f.name, f.Tokens-1) {
		out = append(out, uint32(u*256))
	}
	return out
}

// arrays are the model's tensors; prefix stands before the names of those of the text model.
func (f *figure) arrays(prefix func(name string) string) (list []array) {
	for _, row := range f.Tensors {
		var layers, shape []int
		for _, l := range row[1].([]any) {
			layers = append(layers, int(l.(float64)))
		}
		for _, n := range row[2].([]any) {
			shape = append(shape, int(n.(float64)))
		}
		size, _ := backend.Mul(shape...)
		center, spread := row[3].(float64), row[4].(float64)
		for _, l := range layers {
			name := strings.ReplaceAll(row[0].(string), "#", fmt.Sprint(l))
			a := array{prefix(name), shape, make([]float32, size)}
			for i, u := range uniform(f.name+" "+name, size) {
				a.data[i] = float32(center + float64(spread*(2*u-1))) // products are rounded, on every processor
			}
			list = append(list, a)
		}
	}
	return list
}

// folder is the model as files: one of weights in the spelling of transformers 4, two and an index in that of 5. A part of a
// larger model has the names that this gives it.
func (f *figure) folder(t testing.TB, spelling string) fstest.MapFS {
	config, err := json.Marshal(f.Configs[spelling])
	require.NoError(t, err)
	files := map[string][]byte{"config.json": config}
	prefix := func(name string) string {
		part, inner := strings.CutPrefix(name, "model.")
		switch _, larger := f.Configs[spelling]["text_config"]; {
		case larger && spelling == "4":
			return "language_model." + name
		case larger && inner:
			return "model.language_model." + part
		}
		return name
	}
	list := f.arrays(prefix)
	if spelling == "4" {
		files["model.safetensors"] = craftSafetensors(list, "F32")
		return folder(files)
	}
	index := map[string]string{}
	for i, part := range [][]array{list[:len(list)/2], list[len(list)/2:]} {
		name := fmt.Sprintf("model-%05d-of-00002.safetensors", i+1)
		files[name] = craftSafetensors(part, "F32")
		for _, a := range part {
			index[a.name] = name
		}
	}
	files["model.safetensors.index.json"], err = json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": index})
	require.NoError(t, err)
	return folder(files)
}

func (f *figure) load(t testing.TB, spelling string) *Model {
	m, tok, err := LoadFS(f.folder(t, spelling), ".")
	require.NoError(t, err, "%s, transformers %s", f.name, spelling)
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

// feed computes tokens in steps and gives the logits [vocab] behind each of them to see, with its position.
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
func (f *figure) off(at int, logits []float32) (most float64) {
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
func measure[B backend.Buffer](t testing.TB, f *figure, be backend.Backend[B], m *Model, cfg kvcache.Config, step int) (most float64) {
	r := newRunner(t, be, m, Options{Cache: cfg})
	seq, _, err := r.Pool().Open(f.text(), kvcache.OpenOptions{NoReuse: true})
	require.NoError(t, err)
	seen := 0
	feed(t, r, seq, f.text(), step, func(at int, logits []float32) {
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
	"truncate":     inBlocks(func(b *Block) bool { return b.RoPE.NoTruncate && change(&b.RoPE.NoTruncate, false) }),
	"scale":        inBlocks(func(b *Block) bool { return b.Scale != 0 && change(&b.Scale, 0) }),
	"cap":          inBlocks(func(b *Block) bool { return b.SoftCap != 0 && change(&b.SoftCap, b.SoftCap/5) }),
	"temperature":  inBlocks(func(b *Block) bool { return b.Warm.Floor > 0 && change(&b.Warm, temperature{}) }),
	"q and k norm": inBlocks(func(b *Block) bool { return b.QKNorm != 0 && change(&b.QKNorm, noQKNorm) }),
	"route":        inBlocks(func(b *Block) bool { return b.Experts.Count > 0 && change(&b.Experts.Top, b.Experts.Top+1) }),
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
	"norm behind": func(m *Model) bool {
		had := m.Layers[0].PostFFN != nil
		for l := range m.Layers {
			m.Layers[l].PostFFN = nil
		}
		return had
	},
	"embeddings": func(m *Model) bool { return m.EmbedScale != 0 && change(&m.EmbedScale, 1) },
	"logit cap":  func(m *Model) bool { return m.LogitCap != 0 && change(&m.LogitCap, 0) },
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
