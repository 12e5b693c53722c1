package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// What layers see is read of files that are not run, by their headers, with why they are not.
func TestShapesOfForeignGGUF(t *testing.T) {
	for name, c := range map[string]struct {
		layers, heads, kv, dim int
		windows                int // layers
		why                    []string
	}{
		"llama3-q4_k_m": {2, 8, 4, 32, 0, nil},
		"gemma3-q4_k_m": {6, 4, 1, 64, 5, nil},
		"gpt-oss-mxfp4": {4, 4, 2, 32, 2, nil},
		"qwen2-f16":     {4, 4, 2, 16, 0, nil},
		"llama-q8_0":    {4, 4, 2, 16, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			shape, cannot, err := LoadHeader(external.Path(t, "gguf", name+"/"+name+".gguf"))
			require.NoError(t, err)
			b := shape.block(shape.Layers - 1)
			require.Equal(t, []int{c.layers, c.heads, c.kv, c.dim}, []int{shape.Layers, b.Heads, b.KVHeads, b.HeadDim})
			windows := 0
			for l := range shape.Layers {
				if shape.block(l).Kind == group.Window {
					windows++
				}
			}
			require.Equal(t, c.windows, windows)
			require.Len(t, cannot, len(c.why))
			for i, why := range c.why {
				require.Contains(t, cannot[i].Error(), why)
			}
		})
	}
	for _, bad := range []string{"array-1e9", "truncated", "type-unknown", "offset-beyond-end"} {
		path := external.Path(t, "gguf", "bad/"+bad+".gguf")
		_, _, err := Load(path, "", nil)
		require.Error(t, err, bad)
		typed(t, err)
		_, _, err = LoadHeader(path)
		if err != nil { // a type that nobody knows has a shape all the same
			typed(t, err)
		}
	}
}

// Of architectures that are not run, and of those that are, the header says what a cache takes.
func TestSizesOfGGUF(t *testing.T) {
	list := func(values ...int) []byte {
		out := join(u32(ggufArray), u32(ggufU32), u64(uint64(len(values))))
		for _, v := range values {
			out = append(out, u32(uint32(v))...)
		}
		return out
	}
	for name, c := range map[string]struct {
		arch   string
		layers int
		meta   map[string]any // without the architecture in front
		bytes  int            // of a token in 16 bits, in layers that see everything
		spans  map[int]int    // layers that see a window or a chunk, by its tokens
		why    []string
	}{
		"Scout": {"llama4", 48, map[string]any{"embedding_length": 5120, "feed_forward_length": 16384, "attention.head_count": 40, "attention.head_count_kv": 8, "attention.key_length": 128,
			"attention.value_length": 128, "expert_count": 16, "expert_used_count": 1, "context_length": 10485760, "attention.chunk_size": 8192},
			12 * 2 * 8 * 128 * 2, map[int]int{8192: 36}, []string{"architecture llama4 in a GGUF file"}},
		"V2-Lite": {"deepseek2", 27, map[string]any{"embedding_length": 2048, "feed_forward_length": 10944, "attention.head_count": 16, "attention.head_count_kv": 1, "attention.key_length": 576,
			"attention.value_length": 512, "attention.key_length_mla": 192, "attention.value_length_mla": 128, "attention.kv_lora_rank": 512, "rope.dimension_count": 64, "context_length": 163840,
			"expert_count": 64, "expert_used_count": 6, "leading_dense_block_count": 1},
			27 * 576 * 2, nil, []string{"architecture deepseek2 in a GGUF file"}},
		"Qwen1.5-MoE": {"qwen2moe", 24, map[string]any{"embedding_length": 2048, "feed_forward_length": 5632, "attention.head_count": 16, "attention.head_count_kv": 16, "context_length": 8192,
			"expert_count": 60, "expert_used_count": 4, "expert_feed_forward_length": 1408, "expert_shared_feed_forward_length": 5632}, 24 * 2 * 16 * 128 * 2, nil, nil},
		"Qwen3-30B-A3B": {"qwen3moe", 48, map[string]any{"embedding_length": 2048, "feed_forward_length": 6144, "attention.head_count": 32, "attention.head_count_kv": 4, "attention.key_length": 128,
			"attention.value_length": 128, "context_length": 40960, "expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768}, 48 * 2 * 4 * 128 * 2, nil, nil},
		"Mixtral": {"llama", 32, map[string]any{"embedding_length": 4096, "feed_forward_length": 14336, "attention.head_count": 32, "attention.head_count_kv": 8, "rope.dimension_count": 128,
			"context_length": 32768, "expert_count": 8, "expert_used_count": 2}, 32 * 2 * 8 * 128 * 2, nil, nil},
		"Phi-3-mini": {"phi3", 32, map[string]any{"embedding_length": 3072, "feed_forward_length": 8192, "attention.head_count": 32, "attention.head_count_kv": 32, "rope.dimension_count": 96,
			"context_length": 4096, "attention.sliding_window": 2047}, 0, map[int]int{2047: 32}, nil},
		"layers that differ": {"llama", 3, map[string]any{"embedding_length": 512, "feed_forward_length": 1024, "attention.head_count": 8, "attention.head_count_kv": list(8, 4, 1),
			"context_length": 2048}, 13 * 2 * 64 * 2, nil, []string{"attention.head_count_kv [8 4 1], layers that are not alike,"}},
		"layers without attention": {"lfm2", 3, map[string]any{"embedding_length": 512, "feed_forward_length": 1024, "attention.head_count": 8, "attention.head_count_kv": list(0, 4, 0),
			"context_length": 2048}, 4 * 2 * 64 * 2, nil, []string{"architecture lfm2 in a GGUF file", "model_type lfm2", "2 layers of another kind, which keep a state that is not sized,", "attention.head_count_kv [0 4 0], layers"}},
		"latents": {"minicpm3", 62, map[string]any{"embedding_length": 2560, "feed_forward_length": 6400, "attention.head_count": 40, "attention.head_count_kv": 40, "attention.key_length": 96,
			"attention.value_length": 64, "attention.kv_lora_rank": 256, "attention.q_lora_rank": 768, "rope.dimension_count": 32, "context_length": 32768}, 62 * 288 * 2, nil, []string{"architecture minicpm3"}},
	} {
		t.Run(name, func(t *testing.T) {
			meta := map[string][]byte{"general.architecture": join(u32(ggufString), text(c.arch)), c.arch + ".block_count": metaNumber(c.layers),
				c.arch + ".attention.layer_norm_rms_epsilon": metaNumber(1e-5), c.arch + ".vocab_size": metaNumber(8), "tokenizer.ggml.model": join(u32(ggufString), text("llama"))}
			for key, value := range c.meta {
				if data, ok := value.([]byte); ok {
					meta[c.arch+"."+key] = data
				} else {
					meta[c.arch+"."+key] = metaNumber(value)
				}
			}
			path := filepath.Join(t.TempDir(), "m.gguf")
			arrays := []array{{name: "token_embd.weight", shape: []int{8, 0}}}
			require.NoError(t, os.WriteFile(path, craftGGUF(meta, arrays, "F32"), 0o600))
			shape, cannot, err := LoadHeader(path)
			require.NoError(t, err)
			bytes, spans := 0, map[int]int{}
			for l := range shape.Layers {
				switch b := shape.block(l); {
				case b.Kind == group.None:
				case b.Span > 0:
					spans[b.Span]++
				case b.Latent != (latent{}):
					bytes += 2 * b.HeadDim
				default:
					bytes += 2 * b.KVHeads * (b.HeadDim + b.valueDim())
				}
			}
			require.Equal(t, c.bytes, bytes)
			require.Len(t, spans, len(c.spans))
			for span, layers := range c.spans {
				require.Equal(t, layers, spans[span])
			}
			for _, why := range c.why {
				require.True(t, slices.ContainsFunc(cannot, func(u error) bool { return strings.Contains(u.Error(), why) }), "%s in %v", why, cannot)
			}
			require.GreaterOrEqual(t, len(cannot), len(c.why))
		})
	}
}
