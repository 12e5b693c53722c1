package runner

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/stretchr/testify/require"
)

// What readers fail with.
type (
	ErrFile        = modelfile.ErrFile
	ErrUnsupported = modelfile.ErrUnsupported
)

// Tiny valid files, made by code that shares nothing with the readers.

// array is a tensor of a crafted file. Its values are multiples of 1/64 below 1,
// which every encoding holds exactly.
type array struct {
	name  string
	shape []int
	data  []float32
}

func craftConfig(dim int) Config {
	return Config{Family: "llama", Dim: dim, Layers: 2, Vocab: 5, Context: 6, Eps: 1e-5, Tied: true, BOS: 1, EOS: []uint32{2}, FFN: "mlp.",
		Block: Block{Hidden: dim, Heads: 2, KVHeads: 1, HeadDim: dim / 2, RoPE: backend.RoPE{Theta: 10000, Pairing: backend.Interleaved}, Act: "silu"}}
}

// craftArrays is the weights of c under the names of n.
func craftArrays(c Config, n *strings.Replacer) []array {
	var list []array
	add := func(name string, shape ...int) {
		name = n.Replace(name + ".weight")
		size, _ := backend.Mul(shape...)
		a := array{name, shape, make([]float32, size)}
		for i := range a.data {
			a.data[i] = float32((i*7+len(list)*13)%127-63) / 64
		}
		list = append(list, a)
	}
	add("model.embed_tokens", c.Vocab, c.Dim)
	add("model.norm", c.Dim)
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for l := range c.Layers {
		in := func(part string) string { return fmt.Sprintf("model.layers.%d.%s", l, part) }
		add(in("input_layernorm"), c.Dim)
		add(in("self_attn.q_proj"), q, c.Dim)
		add(in("self_attn.k_proj"), kv, c.Dim)
		add(in("self_attn.v_proj"), kv, c.Dim)
		add(in("self_attn.o_proj"), c.Dim, q)
		add(in("post_attention_layernorm"), c.Dim)
		add(in("mlp.gate_proj"), c.Hidden, c.Dim)
		add(in("mlp.up_proj"), c.Hidden, c.Dim)
		add(in("mlp.down_proj"), c.Dim, c.Hidden)
	}
	if !c.Tied {
		add("lm_head", c.Vocab, c.Dim)
	}
	return list
}

func encode(kind string, data []float32) (out []byte) {
	le := binary.LittleEndian
	switch kind {
	case "F16":
		for _, v := range data {
			out = le.AppendUint16(out, quant.F16(v))
		}
	case "BF16":
		for _, v := range data {
			out = le.AppendUint16(out, quant.BF16(v))
		}
	case "Q8_0":
		for i, v := range data {
			if i%32 == 0 {
				out = le.AppendUint16(out, quant.F16(1.0/64))
			}
			out = append(out, byte(int8(v*64)))
		}
	default:
		for _, v := range data {
			out = le.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out
}

func craftSafetensors(arrays []array, kind string) []byte {
	header, data := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, []byte{}
	for _, a := range arrays {
		begin := len(data)
		data = append(data, encode(kind, a.data)...)
		header[a.name] = map[string]any{"dtype": kind, "shape": a.shape, "data_offsets": []int{begin, len(data)}}
	}
	text, _ := json.Marshal(header)
	return withHeader(string(text), data)
}

// withHeader is a safetensors file with any header.
func withHeader(header string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

// text is a string as GGUF has it.
func text(s string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
}

func u32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// Value types of GGUF's metadata.
const (
	ggufU8 = iota
	ggufI8
	ggufU16
	ggufI16
	ggufU32
	ggufI32
	ggufF32
	ggufBool
	_
	_
	ggufU64
	ggufI64
	ggufF64
)

// craftMeta is the metadata of c, key by key.
func craftMeta(c Config) map[string][]byte {
	number := func(v int) []byte { return join(u32(ggufU32), u32(uint32(v))) }
	return map[string][]byte{
		"general.architecture":                   join(u32(ggufString), text("llama")),
		"llama.embedding_length":                 number(c.Dim),
		"llama.feed_forward_length":              number(c.Hidden),
		"llama.block_count":                      number(c.Layers),
		"llama.attention.head_count":             number(c.Heads),
		"llama.attention.head_count_kv":          number(c.KVHeads),
		"llama.context_length":                   number(c.Context),
		"llama.attention.layer_norm_rms_epsilon": join(u32(ggufF32), u32(math.Float32bits(c.Eps))),
		"tokenizer.ggml.model":                   join(u32(ggufString), text("llama")),
		"tokenizer.ggml.tokens":                  join(u32(ggufArray), u32(ggufString), u64(5), text("<unk>"), text("<s>"), text("</s>"), text("<0x0A>"), text("▁a")),
		"tokenizer.ggml.scores":                  join(u32(ggufArray), u32(ggufF32), u64(5), make([]byte, 20)),
		"tokenizer.ggml.token_type":              join(u32(ggufArray), u32(ggufI32), u64(5), u32(2), u32(3), u32(3), u32(6), u32(1)),
	}
}

func craftGGUF(meta map[string][]byte, arrays []array, kind string) []byte {
	numbers := map[string]uint32{"F32": 0, "F16": 1, "Q8_0": 8, "BF16": 30}
	out := join([]byte("GGUF"), u32(3), u64(uint64(len(arrays))), u64(uint64(len(meta))))
	for key, value := range meta {
		out = join(out, text(key), value)
	}
	var data []byte
	for _, a := range arrays {
		data = append(data, make([]byte, -len(data)&31)...)
		out = join(out, text(a.name), u32(uint32(len(a.shape))))
		for i := range a.shape {
			out = append(out, u64(uint64(a.shape[len(a.shape)-1-i]))...)
		}
		kind := kind
		if kind == "Q8_0" && a.shape[len(a.shape)-1]%32 != 0 { // as quantizers leave them
			kind = "F32"
		}
		out = join(out, u32(numbers[kind]), u64(uint64(len(data))))
		data = append(data, encode(kind, a.data)...)
	}
	return join(out, make([]byte, -len(out)&31), data)
}

// craftCheckpoint is the arrays of craftArrays in llama2.c's order.
func craftCheckpoint(c Config) []byte {
	named := map[string][]float32{}
	for _, a := range craftArrays(c, huggingFace) {
		named[a.name] = a.data
	}
	vocab := c.Vocab
	if !c.Tied {
		vocab = -vocab
	}
	var out []byte
	for _, v := range []int{c.Dim, c.Hidden, c.Layers, c.Heads, c.KVHeads, vocab, c.Context} {
		out = append(out, u32(uint32(int32(v)))...)
	}
	out = append(out, encode("F32", named["model.embed_tokens.weight"])...)
	for _, part := range []string{"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
		"post_attention_layernorm", "mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"} {
		for l := range c.Layers {
			out = append(out, encode("F32", named[fmt.Sprintf("model.layers.%d.%s.weight", l, part)])...)
		}
	}
	out = join(out, encode("F32", named["model.norm.weight"]), make([]byte, 4*c.Context*c.HeadDim))
	if !c.Tied {
		out = append(out, encode("F32", named["lm_head.weight"])...)
	}
	return out
}

func craftJSON(c Config, more string) []byte {
	return fmt.Appendf(nil, `{"model_type":"llama","hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":%d,
		"num_attention_heads":%d,"num_key_value_heads":%d,"vocab_size":%d,"max_position_embeddings":%d,"rms_norm_eps":1e-5,
		"tie_word_embeddings":%v%s}`, c.Dim, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.Vocab, c.Context, c.Tied, more)
}

// folder is a file system of files by name.
func folder(files map[string][]byte) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, data := range files {
		fsys[name] = &fstest.MapFile{Data: data}
	}
	return fsys
}

// bounded runs f and fails if it allocated out of proportion to size, the bytes of
// its input.
func bounded(t testing.TB, size int, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+256*size), "bytes allocated for an input of %d", size)
}

// typed fails unless err is one that a reader may give.
func typed(t testing.TB, err error) {
	var f ErrFile
	var u ErrUnsupported
	switch e := err.(type) {
	case nil:
	case ErrFile:
		f = e
		require.NotEmpty(t, f.File)
		require.NotEmpty(t, f.Field)
	case ErrUnsupported:
		u = e
		require.NotEmpty(t, u.File)
		require.NotEmpty(t, u.Remedy, u.Feature)
	default:
		require.Fail(t, "untyped error", "%T %v", err, err)
	}
}

// unsupported fails unless err refuses a file for a feature.
func unsupported(t testing.TB, err error, file, feature string) {
	t.Helper()
	var u ErrUnsupported
	require.ErrorAs(t, err, &u)
	require.Equal(t, ErrUnsupported{File: file, Feature: feature, Remedy: u.Remedy}, u)
	require.NotEmpty(t, u.Remedy, "what to do")
}

// failed is what a reader gives up a file for.
func failed(read func()) (err error) {
	defer caught(&err)
	read()
	return nil
}
