package llama

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
)

// metadata is the key-value store of a GGUF file. The first value that is missing
// or of another type stays in err.
type metadata struct {
	file
	values map[string]any
	err    error
}

func (m *metadata) fail(key, format string, a ...any) {
	if m.err == nil {
		m.err = m.bad("metadata "+key, format, a...)
	}
}

// get is the value of key if it has type T, and def if the key is absent.
func get[T any](m *metadata, key string, def *T) T {
	var zero T
	v, there := m.values[key]
	if !there && def != nil {
		return *def
	}
	t, ok := v.(T)
	switch {
	case !there:
		m.fail(key, "is missing")
	case !ok:
		m.fail(key, "has type %T, need %T", v, zero)
	}
	return t
}

func (m *metadata) int(key string, def ...int) int {
	if len(def) > 0 {
		d := int64(def[0])
		return int(get(m, key, &d))
	}
	return int(get[int64](m, key, nil))
}

func (m *metadata) float(key string, def float64) float64 { return get(m, key, &def) }

func (m *metadata) string(key, def string) string { return get(m, key, &def) }

// words is an array of n four-byte numbers, or nil when the key is absent.
func (m *metadata) words(key string, n int) []uint32 {
	if _, there := m.values[key]; !there {
		return nil
	}
	a := get[ggufNumbers](m, key, nil)
	if four := a.kind == ggufF32 || a.kind == ggufI32 || a.kind == ggufU32; !four || len(a.data) != 4*n {
		m.fail(key, "is no array of %d four-byte numbers", n)
		return nil
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(a.data[4*i:])
	}
	return out
}

// config reads the llama.* metadata. Query and key rows of GGUF files are in the
// order that pairs neighbours, also where the original paired halves.
func (m *metadata) config(a *archive) (Config, error) {
	if arch := m.string("general.architecture", ""); m.err == nil && arch != "llama" {
		return Config{}, m.unsupported("architecture %s", arch)
	}
	if _, there := a.tensors["rope_freqs.weight"]; there { // how GGUF stores Llama 3's scaling
		return Config{}, m.unsupported("rope_freqs.weight")
	}
	c := Config{
		Dim: m.int("llama.embedding_length"), Hidden: m.int("llama.feed_forward_length"), Layers: m.int("llama.block_count"),
		Heads: m.int("llama.attention.head_count"), Context: m.int("llama.context_length"),
		Eps: float32(m.float("llama.attention.layer_norm_rms_epsilon", 1e-5)),
		BOS: uint32(m.int("tokenizer.ggml.bos_token_id", 1)), EOS: []uint32{uint32(m.int("tokenizer.ggml.eos_token_id", 2))},
	}
	c.KVHeads = m.int("llama.attention.head_count_kv", c.Heads)
	if c.Heads > 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	c.HeadDim = m.int("llama.attention.key_length", c.HeadDim)
	if v := m.int("llama.attention.value_length", c.HeadDim); m.err == nil && v != c.HeadDim {
		return Config{}, m.unsupported("a value length other than the key length")
	}
	if shape := a.tensors[ggml.embed].shape; len(shape) == 2 {
		c.Vocab = shape[0]
	}
	_, untied := a.tensors[ggml.output]
	c.Tied = !untied
	c.RoPE = backend.RoPE{
		Pairing: backend.Interleaved, Theta: m.float("llama.rope.freq_base", 10000),
		Dims: m.int("llama.rope.dimension_count", c.HeadDim),
	}
	scaling := m.string("llama.rope.scaling.type", "none")
	switch scaling {
	case "none":
	case "linear":
		c.RoPE.Scaling = backend.LinearScaling
	case "yarn":
		c.RoPE.Scaling = backend.YaRNScaling
		c.RoPE.OriginalContext = m.int("llama.rope.scaling.original_context_length", c.Context)
	default:
		return Config{}, m.unsupported("rope scaling of type %s", scaling)
	}
	if c.RoPE.Scaling != backend.NoScaling {
		c.RoPE.Factor = m.float("llama.rope.scaling.factor", 0)
	}
	if m.err != nil {
		return Config{}, m.err
	}
	return c, c.check(m.file)
}

// Token types of GGUF's vocabulary.
const (
	ggmlNormal      = 1
	ggmlUserDefined = 4
	ggmlByte        = 6
)

// tokenizer reads the embedded SentencePiece vocabulary, in which ▁ is a space.
func (m *metadata) tokenizer(c Config) (*Tokenizer, error) {
	if kind := m.string("tokenizer.ggml.model", "none"); m.err == nil && kind != "llama" {
		return nil, m.unsupported("the embedded vocabulary of type %s", kind)
	}
	tokens := get[[]string](m, "tokenizer.ggml.tokens", nil)
	scores := m.words("tokenizer.ggml.scores", len(tokens))
	kinds := m.words("tokenizer.ggml.token_type", len(tokens))
	if m.err != nil {
		return nil, m.err
	}
	if len(tokens) != c.Vocab {
		return nil, m.bad("metadata tokenizer.ggml.tokens", "has %d tokens, the embedding has %d", len(tokens), c.Vocab)
	}
	pieces := make([]piece, len(tokens))
	for i, text := range tokens {
		p := piece{text: strings.ReplaceAll(text, "▁", " "), kind: normalPiece}
		if scores != nil {
			p.score = math.Float32frombits(scores[i])
		}
		if kinds != nil {
			switch kinds[i] {
			case ggmlNormal, ggmlUserDefined:
			case ggmlByte:
				p.kind = bytePiece
			default:
				p.kind = controlPiece
			}
		}
		pieces[i] = p
	}
	return newTokenizer(m.file, pieces, c.BOS)
}
