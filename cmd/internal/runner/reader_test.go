package runner

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// matrices is all matrices of a model of plain layers.
func matrices(m *Model) []*product.Matrix {
	all := []*product.Matrix{m.Embed, m.Output}
	for _, l := range m.Layers {
		for _, w := range []Matrix{l.Q, l.K, l.V, l.O, l.FFN.Gate, l.FFN.Up, l.FFN.Down} {
			all = append(all, w.Matrix)
		}
	}
	return all
}

// One model written in every format and encoding is read as the same model.
func TestFormatsAgree(t *testing.T) {
	for _, tied := range []bool{true, false} {
		cfg := craftConfig(32)
		cfg.Tied = tied
		want, _, err := LoadFS(folder(map[string][]byte{"m.bin": craftCheckpoint(cfg)}), "m.bin")
		require.NoError(t, err)
		require.Equal(t, cfg, want.Config)
		for i, a := range craftArrays(cfg, huggingFace)[:5] {
			got := [][]float32{floats(want.Embed), want.Norm, want.Layers[0].AttnNorm, floats(want.Layers[0].Q.Matrix), floats(want.Layers[0].K.Matrix)}
			require.Equal(t, a.data, got[i], a.name)
		}
		same := func(kind string, load func() (*Model, *tokenizer.Tokenizer, error)) (*Model, *tokenizer.Tokenizer) {
			t.Helper()
			m, tok, err := load()
			require.NoError(t, err)
			for i, w := range matrices(m) {
				require.Equal(t, encodings[kind].dtype, w.Type, "as it is stored")
				require.Equal(t, floats(matrices(want)[i]), floats(w))
			}
			require.Len(t, m.Layers, len(want.Layers))
			for l := range m.Layers {
				require.Equal(t, want.Layers[l].AttnNorm, m.Layers[l].AttnNorm)
				require.Equal(t, want.Layers[l].FFNNorm, m.Layers[l].FFNNorm)
			}
			require.Equal(t, want.Norm, m.Norm)
			return m, tok
		}
		for _, kind := range []string{"F32", "F16", "BF16"} {
			fsys := folder(map[string][]byte{
				"d/config.json":       craftJSON(cfg, ""),
				"d/model.safetensors": craftSafetensors(craftArrays(cfg, huggingFace), kind),
			})
			for _, name := range []string{"d", "d/model.safetensors"} {
				same(kind, func() (*Model, *tokenizer.Tokenizer, error) { return LoadFS(fsys, name) })
			}
		}
		for _, kind := range []string{"F32", "F16", "BF16", "Q8_0"} {
			m, tok := same(kind, func() (*Model, *tokenizer.Tokenizer, error) {
				return LoadFS(folder(map[string][]byte{"m.gguf": craftGGUF(craftMeta(cfg), craftArrays(cfg, ggufWeights), kind)}), "m.gguf")
			})
			cfg.RoPE.Dims = cfg.HeadDim
			require.Equal(t, cfg, m.Config)
			require.Equal(t, []uint32{1, 4, 3}, tok.Encode("a\n"))
		}
	}
}

// The digest tells models apart by their weights and by their configuration, and goes
// into the keys of their blocks.
func TestDigest(t *testing.T) {
	be, cfg := openCPU(t), craftConfig(4)
	weights := craftSafetensors(craftArrays(cfg, huggingFace), "F32")
	other := bytes.Clone(weights)
	other[len(other)-1] ^= 1
	load := func(more string, weights []byte) *Model {
		m, _, err := LoadFS(folder(map[string][]byte{"config.json": craftJSON(cfg, more), "model.safetensors": weights}), ".")
		require.NoError(t, err)
		require.Len(t, m.Digest(), 32)
		return m
	}
	key := func(m *Model) prefix.Key {
		f, err := newRunner(t, be, m, Options{Lasting: true}).Pool().Config().Fingerprint()
		require.NoError(t, err)
		return f.Root(prefix.Scope{}).Key
	}
	first := load("", weights)
	for _, m := range []*Model{
		load("", weights),
		load(`,"hidden_act":"silu"`, weights), // which says what is understood anyway
	} {
		require.Equal(t, first.Digest(), m.Digest())
		require.Equal(t, key(first), key(m))
	}
	for _, m := range []*Model{load("", other), load(`,"rope_theta":5e5`, weights)} {
		require.NotEqual(t, first.Digest(), m.Digest())
		require.NotEqual(t, key(first), key(m))
	}
}

// A file that ends early is an error at every length, and nothing worse.
func TestCutFiles(t *testing.T) {
	cfg := craftConfig(4)
	config := craftJSON(cfg, "")
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"model.safetensors", craftSafetensors(craftArrays(cfg, huggingFace), "F16")},
		{"model.gguf", craftGGUF(craftMeta(cfg), craftArrays(cfg, ggufWeights), "F32")},
		{"model.bin", craftCheckpoint(cfg)},
	} {
		load := func(data []byte) error {
			_, _, err := LoadFS(folder(map[string][]byte{"config.json": config, c.name: data}), c.name)
			return err
		}
		require.NoError(t, load(c.data))
		for n := range c.data {
			err := load(c.data[:n])
			require.Error(t, err, "%s cut to %d bytes", c.name, n)
			typed(t, err)
		}
	}
}

func TestHostileSafetensors(t *testing.T) {
	for _, c := range []struct{ name, header, field, why string }{
		{"not JSON", `nonsense`, "header", "not a JSON object"},
		{"array", `[]`, "header", "not a JSON object"},
		{"open end", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`, "header", "EOF"},
		{"deep", `{"a":` + strings.Repeat("[", 20000), "header", ""},
		{"twice", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "tensor a", "twice"},
		{"overlap", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, "tensor b", "inside of tensor a"},
		{"beyond", `{"a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}}`, "size", "describes 83: it was not downloaded to its end; download it again"},
		{"backward", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, "tensor a", "data_offsets"},
		{"negative offset", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, "tensor a", "data_offsets"},
		{"one offset", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}`, "tensor a", "data_offsets"},
		{"size", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "tensor a", "has 8 bytes"},
		{"overflow", `{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, "tensor a", "overflows"},
		{"overflow in bytes", `{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}}`, "tensor a", "does not fit"},
		{"negative shape", `{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, "tensor a", "negative"},
		{"huge number", `{"a":{"dtype":"F32","shape":[1e99],"data_offsets":[0,4]}}`, "header", "1e99"},
		{"metadata", `{"__metadata__":7}`, "header", "is not an object of strings"},
	} {
		data := withHeader(c.header, make([]byte, 16))
		bounded(t, len(data), func() {
			err := failed(func() { parseSafetensors(file{"m.safetensors", data}) })
			refused(t, err, "m.safetensors", c.field, c.why, c.name)
		})
	}
	err := failed(func() { parseSafetensors(file{"m", join(u64(math.MaxUint64), make([]byte, 100))}) })
	refused(t, err, "m", "header", "100 left", "header length")

	// Types that are not decoded may be listed, as long as they are not needed.
	a := parseSafetensors(file{"m", withHeader(`{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}`, make([]byte, 12))})
	require.Equal(t, []float32{0}, a.dense("b").data)
	err = failed(func() { a.dense("a", 1) })
	unsupported(t, err, "m", "tensor type I64 (of a)")

	// Q8_0 is GGUF's.
	data := withHeader(`{"a":{"dtype":"Q8_0","shape":[1,32],"data_offsets":[0,34]}}`, make([]byte, 34))
	err = failed(func() { parseSafetensors(file{"m", data}) })
	unsupported(t, err, "m", "tensor type Q8_0 in safetensors (of a)")
}

func ggufError(f file) error { return failed(func() { parseGGUF(f) }) }

func checkpointError(f file) error { return failed(func() { parseCheckpoint(f) }) }

func configOf(f file) (c Config, err error) {
	err = failed(func() { c = parseConfig(f, nil) })
	return c, err
}

func refused(t *testing.T, err error, file, field, why, name string) {
	t.Helper()
	var f ErrFile
	require.True(t, errors.As(err, &f), "%s: %v", name, err)
	require.Equal(t, file, f.File, name)
	require.Contains(t, f.Field, field, name)
	require.Contains(t, f.Why, why, name)
}

func TestHostileGGUF(t *testing.T) {
	cfg := craftConfig(4)
	open := func(change func(meta map[string][]byte, arrays []array)) error {
		meta, arrays := craftMeta(cfg), craftArrays(cfg, ggufWeights)
		change(meta, arrays)
		data := craftGGUF(meta, arrays, "F32")
		var err error
		fsys := folder(map[string][]byte{"m.gguf": data})
		bounded(t, len(data), func() { _, _, err = LoadFS(fsys, "m.gguf") })
		return err
	}
	number := func(v uint32) []byte { return join(u32(ggufU32), u32(v)) }
	for _, c := range []struct {
		key, why string
		value    []byte
	}{
		{"general.alignment", "power of two", number(33)},
		{"general.alignment", "power of two", number(0)},
		{"general.alignment", "is \"x\", need an integer of 32 bits", join(u32(ggufString), text("x"))},
		{"general.architecture", "need a string", number(1)},
		{"llama.block_count", "need an integer of 32 bits", join(u32(ggufU64), u64(math.MaxUint64))},
		{"llama.block_count", "is missing", nil},
		{"x", "unknown type 13", u32(13)},
		{"x", "nested type 9", join(u32(ggufArray), u32(ggufArray), u64(1))},
		{"x", "array of 1152921504606846976 elements", join(u32(ggufArray), u32(ggufU8), u64(1<<60))},
		{"x", "array of 1152921504606846976 elements", join(u32(ggufArray), u32(ggufString), u64(1<<60))},
		{"x", "bytes at offset", join(u32(ggufString), u64(math.MaxUint64))},
		{"tokenizer.ggml.scores", "has 1 values of type float64, need 5", join(u32(ggufArray), u32(ggufF32), u64(1), u32(0))},
		{"tokenizer.ggml.token_type", "has 0 values of type float64, need 5", join(u32(ggufArray), u32(ggufString), u64(5), make([]byte, 40))},
		{"llama.block_count", "need an integer of 32 bits", join(u32(ggufF32), u32(math.Float32bits(1.5)))},
		{"llama.block_count", "is [1 1], need an integer of 32 bits", join(u32(ggufArray), u32(ggufU8), u64(2), []byte{1, 1})},
		{"tokenizer.ggml.tokens", "has 0 values of type string, need 1", join(u32(ggufArray), u32(ggufU8), u64(1), []byte{0})},
		{"tokenizer.ggml.tokens", "has 1 values, need 5", join(u32(ggufArray), u32(ggufString), u64(1), text("a"))},
	} {
		err := open(func(meta map[string][]byte, _ []array) {
			if meta[c.key] = c.value; c.value == nil {
				delete(meta, c.key)
			}
			if c.key == "tokenizer.ggml.tokens" { // their number is checked first otherwise
				delete(meta, "tokenizer.ggml.scores")
				delete(meta, "tokenizer.ggml.token_type")
			}
		})
		refused(t, err, "m.gguf", "metadata "+c.key, c.why, c.key)
	}
	for key, value := range map[string]string{
		"general.architecture": "mamba", "llama.rope.scaling.type": "longrope",
	} {
		err := open(func(meta map[string][]byte, _ []array) { meta[key] = join(u32(ggufString), text(value)) })
		require.ErrorIs(t, err, ErrUnsupported{}, key)
		require.ErrorContains(t, err, value)
	}
	for key, value := range map[string][]byte{
		"llama.rope.scaling.attn_factor": join(u32(ggufF32), u32(math.Float32bits(0.5))), "llama.attention.sliding_window": join(u32(ggufU32), u32(4096)),
		"tokenizer.ggml.add_eos_token": join(u32(ggufBool), []byte{1}),
	} {
		err := open(func(meta map[string][]byte, _ []array) { meta[key] = value })
		require.ErrorIs(t, err, ErrUnsupported{}, key)
		require.ErrorContains(t, err, key)
	}
	require.NoError(t, open(func(meta map[string][]byte, _ []array) {
		meta["llama.rope.scaling.attn_factor"] = join(u32(ggufF32), u32(math.Float32bits(1)))
		meta["tokenizer.ggml.add_space_prefix"] = join(u32(ggufBool), []byte{1})
	}))
	err := open(func(_ map[string][]byte, arrays []array) { arrays[1].name = arrays[0].name })
	refused(t, err, "m.gguf", "tensor token_embd.weight", "twice", "duplicate tensor")
	err = open(func(_ map[string][]byte, arrays []array) { arrays[1].name = "rope_freqs.weight" })
	refused(t, err, "m.gguf", "tensor rope_freqs.weight", "has shape [4]", "factors of frequencies")
	err = open(func(_ map[string][]byte, arrays []array) {
		arrays[1].name, arrays[1].shape, arrays[1].data = "rope_freqs.weight", []int{1}, []float32{0.5}
	})
	unsupported(t, err, "m.gguf", "rope_freqs.weight with other factors than Llama 3's")
	err = open(func(_ map[string][]byte, arrays []array) { arrays[1].shape = []int{math.MaxInt, math.MaxInt} })
	refused(t, err, "m.gguf", "tensor output_norm.weight", "overflows", "shape")
	err = open(func(_ map[string][]byte, arrays []array) { arrays[1].shape = make([]int, 5) })
	refused(t, err, "m.gguf", "tensor output_norm.weight", "5 dimensions", "shape")
	err = open(func(_ map[string][]byte, arrays []array) { arrays[1].shape = []int{8} })
	refused(t, err, "m.gguf", "tensor output_norm.weight", "has shape [8]", "shape")
	err = open(func(_ map[string][]byte, arrays []array) { arrays[1].data[2] = float32(math.Inf(1)) })
	refused(t, err, "m.gguf", "tensor output_norm.weight", "element 2 is +Inf", "infinite")

	head := func(version uint32, tensors, keys uint64, more ...[]byte) file {
		return file{"m", join([]byte("GGUF"), u32(version), u64(tensors), u64(keys), join(more...))}
	}
	err = ggufError(head(1, 0, 0))
	unsupported(t, err, "m", "GGUF version 1")
	err = ggufError(head(3, math.MaxUint64, 0))
	refused(t, err, "m", "tensor count", "at most 131072", "tensor count")
	err = ggufError(head(3, maxGGUFTensors, 0))
	refused(t, err, "m", "tensor name", "0 left", "tensors that are not there")
	err = ggufError(head(3, 0, math.MaxUint64))
	refused(t, err, "m", "metadata count", "at most 65536", "metadata count")
	err = ggufError(head(3, 0, maxGGUFKeys))
	refused(t, err, "m", "metadata key", "0 left", "entries that are not there")
	key := join(text("k"), u32(ggufU8), []byte{0})
	err = ggufError(head(3, 0, 2, key, key))
	refused(t, err, "m", "metadata k", "twice", "duplicate key")
	tensor := func(name string, kind uint32, off uint64) []byte {
		return join(text(name), u32(1), u64(1), u32(kind), u64(off))
	}
	err = ggufError(head(3, 2, 0, tensor("a", 0, 0), tensor("b", 0, 0), make([]byte, 99)))
	refused(t, err, "m", "tensor", "inside of tensor", "overlap")
	err = ggufError(head(3, 1, 0, tensor("a", 0, 4), make([]byte, 99)))
	refused(t, err, "m", "tensor a", "multiple of the alignment", "alignment")
	err = ggufError(head(3, 1, 0, tensor("a", 0, math.MaxUint64&^31)))
	refused(t, err, "m", "size", again, "offset")
	for name, kind := range map[string]string{"a": "IQ2_S", "b": "number 99"} {
		_, a := parseGGUF(head(3, 2, 0, tensor("a", 22, 0), tensor("b", 99, 0), make([]byte, 99)))
		err := failed(func() { a.dense(name, 1) })
		unsupported(t, err, "m", "tensor type "+kind+" (of "+name+")")
	}
}

// No setting of a GGUF file says that attention has biases: they are there or not.
func TestBiasesOfGGUF(t *testing.T) {
	cfg := craftConfig(4)
	list, biases := craftArrays(cfg, ggufWeights), map[string][]float32{}
	for l := range cfg.Layers {
		for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			a := array{fmt.Sprintf("blk.%d.%s.bias", l, part), []int{4}, []float32{float32(len(list)) / 64, 0, 0.5, 0}}
			if part == "attn_k" || part == "attn_v" {
				a.shape, a.data = []int{2}, a.data[:2]
			}
			list, biases[a.name] = append(list, a), a.data
		}
	}
	m, _, err := LoadFS(folder(map[string][]byte{"m.gguf": craftGGUF(craftMeta(cfg), list, "F32")}), "m.gguf")
	require.NoError(t, err)
	for l, w := range m.Layers {
		for part, have := range map[string]Matrix{"attn_q": w.Q, "attn_k": w.K, "attn_v": w.V, "attn_output": w.O} {
			name := fmt.Sprintf("blk.%d.%s.bias", l, part)
			require.Equal(t, biases[name], have.Bias, name)
		}
	}
	_, _, err = LoadFS(folder(map[string][]byte{"m.gguf": craftGGUF(craftMeta(cfg), list[:len(list)-1], "F32")}), "m.gguf")
	refused(t, err, "m.gguf", "tensor blk.1.attn_output.bias", "is missing", "one is missing")
}

func TestHostileCheckpoint(t *testing.T) {
	whole := craftCheckpoint(craftConfig(4))
	for _, c := range []struct {
		name  string
		word  int
		value uint32
		field string
	}{
		{"dim", 0, 0, "hidden_size"}, {"dim", 0, math.MaxUint32, "hidden_size"}, {"dim", 0, 5, "num_attention_heads"},
		{"hidden", 1, 1 << 30, "intermediate_size"}, {"hidden", 1, 1 << 20, "mlp.gate_proj"},
		{"layers", 2, 1 << 31, "num_hidden_layers"}, {"layers", 2, 1 << 9, "input_layernorm"},
		{"heads", 3, 0, "num_attention_heads"}, {"heads", 3, 4, "rope"}, {"heads", 3, 8, "num_attention_heads"},
		{"KV heads", 4, 0, "num_key_value_heads"}, {"KV heads", 4, 3, "key-value heads"},
		{"vocabulary", 5, 1 << 31, "vocab_size"}, {"vocabulary", 5, 2, "special tokens"}, {"vocabulary", 5, 6, "size"},
		{"untied", 5, uint32(0xfffffffb), "lm_head"},
		{"context", 6, 0, "max_position_embeddings"}, {"context", 6, 1 << 23, "rotations"},
	} {
		data := append([]byte(nil), whole...)
		copy(data[4*c.word:], u32(c.value))
		bounded(t, len(data), func() {
			_, _, err := LoadFS(folder(map[string][]byte{"m.bin": data}), "m.bin")
			require.Error(t, err, c.name)
			typed(t, err)
			if c.name != "vocabulary" || c.field != "size" {
				refused(t, err, "m.bin", c.field, "", c.name)
			}
		})
	}
	err := checkpointError(file{"m.bin", append(whole, 0)})
	refused(t, err, "m.bin", "size", "1 bytes follow", "longer")
	err = checkpointError(file{"m.bin", join([]byte("24ka"), u32(2), make([]byte, 256))})
	unsupported(t, err, "m.bin", "version 2 of the llama2.c checkpoint")
}

func TestConfig(t *testing.T) {
	base := craftConfig(8)
	parse := func(more string) (Config, error) { return configOf(file{"config.json", craftJSON(base, more)}) }
	c, err := parse(`,"head_dim":16,"bos_token_id":4,"eos_token_id":[2,3],"rope_theta":5e5,"rope_scaling":
		{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":8192}`)
	require.NoError(t, err)
	require.Equal(t, 16, c.HeadDim)
	require.Equal(t, backend.RoPE{Theta: 5e5, Scaling: backend.Llama3Scaling, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalContext: 8192}, c.RoPE)
	for token, stops := range []bool{false, false, true, true, true} {
		require.Equal(t, stops, c.Stops(uint32(token)))
	}
	c, err = parse(`,"rope_scaling":{"type":"linear","factor":2}`)
	require.NoError(t, err)
	require.Equal(t, backend.LinearScaling, c.RoPE.Scaling)
	c, err = parse(`,"rope_parameters":{"rope_type":"yarn","rope_theta":20000,"factor":4,"beta_fast":16},"eos_token_id":null`)
	require.NoError(t, err)
	require.Equal(t, backend.RoPE{Theta: 20000, Scaling: backend.YaRNScaling, Factor: 4, BetaFast: 16, OriginalContext: 6}, c.RoPE)
	require.Empty(t, c.EOS, "null, which is not the default")
	c, err = parse(`,"rope_scaling":{"type":"default"},"rope_scaling":null`)
	require.NoError(t, err)
	require.Equal(t, backend.RoPE{Theta: 10000}, c.RoPE)

	for more, feature := range map[string]string{
		`,"rope_scaling":{"type":"dynamic","factor":2}`:               "rope_scaling.type dynamic",
		`,"quantization_config":{"quant_method":"mxfp4"}`:             "a model with weights quantized by mxfp4 (configuration quantization_config)",
		`,"model_type":"falcon"`:                                      "model_type falcon",
		`,"hidden_act":"gelu"`:                                        "hidden_act gelu",
		`,"mlp_bias":true`:                                            "mlp_bias true",
		`,"rope_parameters":{"rope_type":"longrope","rope_theta":10}`: "rope_parameters.rope_type longrope",
	} {
		_, err := parse(more)
		unsupported(t, err, "config.json", feature)
	}
	for more, field := range map[string]string{
		`,"num_key_value_heads":3`:                 "key-value heads",
		`,"num_key_value_heads":0`:                 "num_key_value_heads",
		`,"num_attention_heads":0`:                 "num_attention_heads",
		`,"num_attention_heads":16`:                "rope",
		`,"head_dim":7`:                            "rope",
		`,"head_dim":1e30`:                         "configuration",
		`,"hidden_size":"8"`:                       "configuration",
		`,"rms_norm_eps":0`:                        "norm epsilon",
		`,"rope_theta":-1`:                         "rope",
		`,"rope_scaling":{"type":"linear"}`:        "rope",
		`,"bos_token_id":5`:                        "special tokens",
		`,"eos_token_id":[1,9]`:                    "special tokens",
		`,"eos_token_id":"x"`:                      "configuration",
		`,"max_position_embeddings":99999999`:      "max_position_embeddings",
		`,"num_hidden_layers":9223372036854775807`: "num_hidden_layers",
		`,`: "configuration",
	} {
		_, err := parse(more)
		refused(t, err, "config.json", field, "", more)
	}
}

func TestLoadErrors(t *testing.T) {
	cfg := craftConfig(4)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	bin := write("m.bin", craftCheckpoint(cfg))
	_, _, err := Load(filepath.Join(dir, "absent.gguf"), "", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	begins := func(path string) {
		t.Helper()
		require.True(t, strings.HasPrefix(err.Error(), path+": "), "the path as it was given: %v", err)
		require.NotContains(t, err.Error(), "stat ")
	}
	begins(filepath.Join(dir, "absent.gguf"))
	_, _, err = Load(dir, "", nil)
	begins(dir)
	_, _, err = Load(write("m.onnx", nil), "", nil)
	require.ErrorIs(t, err, ErrUnsupported{})
	_, _, err = Load(bin, "", nil)
	unsupported(t, err, bin, "a model without a vocabulary, whose 5 tokens are not bytes,")
	m, err := LoadWeights(bin, nil)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	_, _, err = Load(bin, filepath.Join(dir, "absent"), nil)
	begins(filepath.Join(dir, "absent"))
	_, _, err = Load(bin, write("t.bin", make([]byte, 100)), nil)
	begins(filepath.Join(dir, "t.bin"))
	require.ErrorContains(t, err, "after the 5 tokens")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.bin"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.bin", "model.safetensors"), 0o700))
	_, _, err = Load(filepath.Join(dir, "d.bin"), "", nil)
	require.ErrorContains(t, err, "not a regular file")
}

// What ends a turn is often said beside the configuration alone.
func TestGenerationConfig(t *testing.T) {
	read := func(generation string) (c Config, err error) {
		defer caught(&err)
		return readConfig(folder(map[string][]byte{
			"m/config.json": craftJSON(tiny(), `,"eos_token_id":1`), "m/generation_config.json": []byte(generation)}), "m", nil), nil
	}
	for generation, want := range map[string][]uint32{
		`{}`: {1}, `{"eos_token_id":null}`: {1}, `{"eos_token_id":2}`: {1, 2}, `{"eos_token_id":[3,1,2],"temperature":0.7}`: {1, 3, 2},
	} {
		c, err := read(generation)
		require.NoError(t, err, generation)
		require.Equal(t, want, c.EOS, generation)
	}
	for generation, field := range map[string]string{
		`{"eos_token_id":99}`: "special tokens", `{"eos_token_id":"x"}`: "generation eos_token_id", `null`: "generation", `{`: "generation",
	} {
		_, err := read(generation)
		var bad ErrFile
		require.ErrorAs(t, err, &bad, generation)
		require.Contains(t, bad.File, "generation_config.json")
		require.Equal(t, field, bad.Field, generation)
	}
}
