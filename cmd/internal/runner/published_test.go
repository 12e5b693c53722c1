package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/bytesize"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// publishedSizes are configurations with the values of checkpoints that people download, and the size of a cache of them in 16 bits by hand.
//
//	bytes of a token      layers that see everything * elements * 2
//	bytes of 8192 tokens  that * 8192 + layers with a window * elements * 2 * window
//
// Elements are what a layer keeps of a token: KV heads * (key dim + value dim), or with latents kv_lora_rank + qk_rope_head_dim.
var publishedSizes = []struct {
	name, config           string
	full, windows, window  int // layers that see everything, layers with a window, and its tokens
	elements               int
	token, text, allLayers int // bytes: of a token, of 8192 tokens, and of a token where windows are masks
}{
	{"Llama-3.2-1B", `{"model_type":"llama","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":64,
		"vocab_size":128256,"max_position_embeddings":131072,"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
		"original_max_position_embeddings":8192},"tie_word_embeddings":true,"rms_norm_eps":1e-5}`, 16, 0, 0, 8 * (64 + 64), 32768, 268435456, 32768},
	{"Llama-3.1-8B", `{"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
		"vocab_size":128256,"max_position_embeddings":131072,"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
		"original_max_position_embeddings":8192},"rms_norm_eps":1e-5}`, 32, 0, 0, 8 * (128 + 128), 131072, 1073741824, 131072},
	{"Qwen3-8B-FP8", `{"model_type":"qwen3","hidden_size":4096,"intermediate_size":12288,"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,
		"vocab_size":151936,"max_position_embeddings":40960,"rope_theta":1000000,"sliding_window":null,"use_sliding_window":false,"max_window_layers":36,
		"quantization_config":{"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic","weight_block_size":[128,128]}}`, 36, 0, 0, 8 * (128 + 128), 147456, 1207959552, 147456},
	{"Qwen3-30B-A3B", `{"model_type":"qwen3_moe","hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":48,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,
		"vocab_size":151936,"max_position_embeddings":40960,"rope_theta":1000000.0,"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,"norm_topk_prob":true,
		"decoder_sparse_step":1,"mlp_only_layers":[],"sliding_window":null,"use_sliding_window":false,"max_window_layers":48}`, 48, 0, 0, 4 * (128 + 128), 98304, 805306368, 98304},
	{"Mixtral-8x7B", `{"model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
		"vocab_size":32000,"max_position_embeddings":32768,"rope_theta":1000000.0,"sliding_window":null,"num_local_experts":8,"num_experts_per_tok":2}`,
		32, 0, 0, 8 * (128 + 128), 131072, 1073741824, 131072},
	{"Phi-3-mini-4k", `{"model_type":"phi3","hidden_size":3072,"intermediate_size":8192,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,
		"vocab_size":32064,"max_position_embeddings":4096,"original_max_position_embeddings":4096,"rope_theta":10000.0,"rope_scaling":null,"sliding_window":2047}`,
		0, 32, 2047, 32 * (96 + 96), 0, 804913152, 393216},
	{"gpt-oss-20b", `{"model_type":"gpt_oss","hidden_size":2880,"intermediate_size":2880,"num_hidden_layers":24,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,
		"vocab_size":201088,"max_position_embeddings":131072,"sliding_window":128,"num_local_experts":32,"num_experts_per_tok":4,"rope_theta":150000,"attention_bias":true,
		"rope_scaling":{"rope_type":"yarn","factor":32.0,"beta_fast":32.0,"beta_slow":1.0,"truncate":false,"original_max_position_embeddings":4096},
		"quantization_config":{"quant_method":"mxfp4"}}`, 12, 12, 128, 8 * (64 + 64), 24576, 204472320, 49152},
	{"DeepSeek-V2-Lite", `{"model_type":"deepseek_v2","hidden_size":2048,"intermediate_size":10944,"num_hidden_layers":27,"num_attention_heads":16,"num_key_value_heads":16,
		"vocab_size":102400,"max_position_embeddings":163840,"q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
		"n_routed_experts":64,"num_experts_per_tok":6,"moe_intermediate_size":1408,"n_shared_experts":2,"n_group":1,"topk_group":1,"topk_method":"greedy",
		"norm_topk_prob":false,"routed_scaling_factor":1.0,"rms_norm_eps":1e-6,"first_k_dense_replace":1,"rope_scaling":{"type":"yarn","factor":40,"mscale":0.707,"mscale_all_dim":0.707,"original_max_position_embeddings":4096,
		"beta_fast":32,"beta_slow":1}}`, 27, 0, 0, 512 + 64, 31104, 254803968, 31104},
	{"DeepSeek-V3", `{"model_type":"deepseek_v3","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,"num_attention_heads":128,"num_key_value_heads":128,
		"vocab_size":129280,"max_position_embeddings":163840,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
		"n_routed_experts":256,"first_k_dense_replace":3,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]},
		"rope_scaling":{"type":"yarn","factor":40,"mscale":1.0,"mscale_all_dim":1.0,"original_max_position_embeddings":4096,"beta_fast":32,"beta_slow":1}}`,
		61, 0, 0, 512 + 64, 70272, 575668224, 70272},
	{"Gemma-3-27B", `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":5376,"intermediate_size":21504,"num_hidden_layers":62,"num_attention_heads":32,
		"num_key_value_heads":16,"head_dim":128,"vocab_size":262208,"max_position_embeddings":131072,"query_pre_attn_scalar":168,"sliding_window":1024,
		"rope_scaling":{"rope_type":"linear","factor":8.0}},"vision_config":{"hidden_size":1152}}`, 10, 52, 1024, 16 * (128 + 128), 81920, 1107296256, 507904},
	{"Kimi-K2", `{"model_type":"kimi_k2","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,"num_attention_heads":64,"num_key_value_heads":64,
		"vocab_size":163840,"max_position_embeddings":131072,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
		"n_routed_experts":384,"num_experts_per_tok":8,"moe_intermediate_size":2048,"n_shared_experts":1,"n_group":1,"topk_group":1,"topk_method":"noaux_tc",
		"norm_topk_prob":true,"routed_scaling_factor":2.827,"rms_norm_eps":1e-6,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]},"first_k_dense_replace":1,"rope_theta":50000.0,"rope_scaling":{"type":"yarn","factor":64.0,"mscale":1.0,"mscale_all_dim":1.0,
		"original_max_position_embeddings":4096,"beta_fast":1.0,"beta_slow":1.0}}`, 61, 0, 0, 512 + 64, 70272, 575668224, 70272},
}

// The cache of each is as large as by hand, in both layouts where they differ, and docs/models.md has the same figures.
func TestSizesOfPublishedModels(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/models.md")
	require.NoError(t, err)
	for _, c := range publishedSizes {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(c.config), 0o600))
			m, _, err := LoadHeader(dir)
			require.NoError(t, err)
			context := min(8192, m.Context)
			require.Equal(t, c.token, c.full*c.elements*2)
			require.Equal(t, c.text, c.token*8192+c.windows*c.elements*2*c.window)
			sized := func(layout kvcache.Layout) kvcache.Config {
				cfg, err := m.Complete(kvcache.Config{Storage: kvcache.Storage{K: backend.F16}, Memory: kvcache.Memory{Layout: layout, Capacity: context, MaxSeqs: 1}},
					func(int) []float32 { return make([]float32, m.block(0).Heads) })
				require.NoError(t, err)
				cfg, err = cfg.Resolve()
				require.NoError(t, err)
				return cfg
			}
			paged, whole := sized(kvcache.Paged), sized(kvcache.Contiguous)
			all, err := whole.BytesPerBlock()
			require.NoError(t, err)
			require.EqualValues(t, c.allLayers*context, all, "a sequence in the contiguous layout, where a window is a mask")
			bytes, err := paged.BytesPerToken()
			require.NoError(t, err)
			require.EqualValues(t, c.token, bytes)
			groups, err := paged.GroupSizes()
			require.NoError(t, err)
			layers := map[group.Kind]int{}
			for _, g := range groups {
				layers[g.Kind] += g.Layers
				if tokens := g.Blocks / g.Parts * g.BlockTokens; g.Kind == group.Window {
					require.GreaterOrEqual(t, tokens, c.window)
					require.Less(t, tokens, c.window+2*g.BlockTokens, "a window is kept, and no more than the rest of two blocks")
				} else {
					require.Equal(t, context, tokens)
				}
			}
			if groups != nil {
				require.Equal(t, []int{c.full, c.windows}, []int{layers[group.Full], layers[group.Window]})
			}
			row := fmt.Sprintf("\n| %s | %s | %s | %s |\n", c.name, arithmetic(c.full, c.windows, c.elements, c.window), bytesize.String(int64(c.token)), bytesize.String(int64(c.text)))
			require.True(t, strings.Contains(strings.ReplaceAll(string(doc), "\r\n", "\n"), row), "docs/models.md has no row %s", row)
		})
	}
}

// arithmetic is the layers and elements of a row of docs/models.md.
func arithmetic(full, windows, elements, window int) string {
	var parts []string
	if full > 0 {
		parts = append(parts, fmt.Sprintf("%d layers × %d elements", full, elements))
	}
	if windows > 0 {
		parts = append(parts, fmt.Sprintf("%d layers × %d elements in windows of %d tokens", windows, elements, window))
	}
	return strings.Join(parts, ", ")
}
