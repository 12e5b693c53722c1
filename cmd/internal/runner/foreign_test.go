package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// The cache of families that are not run has the size that their own settings give it, as published.
func TestSizesOfForeignFamilies(t *testing.T) {
	granite := `[` + strings.Repeat(`"mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba",`, 3) + `"mamba","attention","conv"]`
	for name, c := range map[string]struct {
		config string
		bytes  int         // of a token in 16 bits, in layers that see everything
		spans  map[int]int // layers that see a window, by its tokens
		none   int         // layers that keep no keys and values
		why    string
	}{
		"deepseek_v32":  {`"num_hidden_layers":32,"num_attention_heads":128,"num_key_value_heads":128,"kv_lora_rank":512,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,"index_head_dim":128`, 32 * 576 * 2, nil, 0, "indexer"},
		"glm4_moe_lite": {`"num_hidden_layers":47,"num_attention_heads":20,"num_key_value_heads":20,"kv_lora_rank":512,"qk_rope_head_dim":64,"qk_nope_head_dim":192,"v_head_dim":256,"moe_intermediate_size":1536`, 47 * 576 * 2, nil, 0, "what layers of model_type glm4_moe_lite see"},
		"kimi_linear": {`"num_hidden_layers":4,"num_attention_heads":32,"kv_lora_rank":512,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"linear_attn_config":{"kda_layers":[1,2,3],"full_attn_layers":[4],"num_heads":32}`,
			576 * 2, nil, 3, "3 layers of another kind, which keep a state that is not sized,"},
		"granitemoehybrid": {`"num_hidden_layers":30,"num_attention_heads":32,"num_key_value_heads":8,"mamba_d_state":128,"layer_types":` + granite, 4 * 2 * 8 * 128 * 2, nil, 26, "25 layers of mamba, which keep a state that is not sized,"},
		"lfm2":             {`"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"conv_L_cache":3,"full_attn_idxs":[2,5,8,10,12,14]`, 6 * 2 * 8 * 128 * 2, nil, 10, "10 layers of another kind"},
		"jamba":            {`"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"mamba_d_state":16,"attn_layer_period":8,"attn_layer_offset":4`, 4 * 2 * 8 * 128 * 2, nil, 28, "28 layers"},
		"nemotron_h":       {`"num_hidden_layers":6,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"ssm_state_size":128,"hybrid_override_pattern":"M-M*M-"`, 2 * 8 * 128 * 2, nil, 5, "2 layers of mlp, which keep nothing,"},
		"recurrent_gemma":  {`"num_hidden_layers":26,"num_attention_heads":10,"num_key_value_heads":1,"head_dim":256,"attention_window_size":2048,"block_types":["recurrent","recurrent","attention"]`, 0, map[int]int{2048: 8}, 18, "18 layers of recurrent"},
		"zamba2":           {`"num_hidden_layers":6,"num_attention_heads":32,"attention_head_dim":256,"mamba_d_state":64,"layers_block_type":["m","m","m","hybrid","mamba","g"]`, 2 * 2 * 32 * 256 * 2, nil, 4, "4 layers of mamba"},
		"minimax":          {`"num_hidden_layers":8,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"attn_type_list":[0,0,0,0,0,0,0,1]`, 2 * 8 * 128 * 2, nil, 7, "7 layers"},
		"qwen3_5_text":     {`"num_hidden_layers":8,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"linear_conv_kernel_dim":4,"full_attention_interval":4`, 2 * 2 * 2 * 256 * 2, nil, 6, "6 layers"},
		"gemma3n_text": {`"num_hidden_layers":5,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,"intermediate_size":[16384,16384,16384,8192,8192],"sliding_window":512,"num_kv_shared_layers":2,
			"layer_types":["sliding_attention","sliding_attention","full_attention","sliding_attention","full_attention"]`, 2 * 2 * 256 * 2, map[int]int{512: 2}, 2, "which keep nothing of their own"},
		"cohere2": {`"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"sliding_window":4096,"sliding_window_pattern":4,"use_cache":true`, 8 * 2 * 8 * 128 * 2, map[int]int{4096: 24}, 0, "model_type cohere2"},
		"exaone4": {`"num_hidden_layers":64,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"sliding_window":4096,"sliding_window_pattern":"LLLG"`, 16 * 2 * 8 * 128 * 2, map[int]int{4096: 48}, 0, "model_type exaone4"},
		"falcon":  {`"num_hidden_layers":32,"num_attention_heads":64,"multi_query":true,"num_kv_heads":64,"new_decoder_architecture":false`, 32 * 2 * 64 * 2, nil, 0, "what layers of model_type falcon see"},
		"gpt2":    {`"n_embd":1600,"n_head":25,"n_layer":48,"n_positions":1024,"bos_token_id":50256`, 48 * 2 * 1600 * 2, nil, 0, "what layers of model_type gpt2 see"},
		"mpt":     {`"d_model":4096,"n_heads":32,"n_layers":32,"max_seq_len":2048,"attn_config":{"kv_n_heads":8}`, 32 * 2 * 8 * 128 * 2, nil, 0, "what layers of model_type mpt see"},
		"phi":     {`"num_hidden_layers":32,"num_attention_heads":32,"rope_scaling":{"type":"dynamic","factor":2.0}`, 32 * 2 * 4096 * 2, nil, 0, "rope_scaling.type dynamic"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := `{"model_type":"` + name + `",` + c.config + `}`
			if !strings.Contains(text, `"n_embd"`) && !strings.Contains(text, `"d_model"`) {
				text = text[:len(text)-1] + `,"hidden_size":4096}`
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
			m, cannot, err := LoadHeader(dir)
			require.NoError(t, err)
			spans, none := map[int]int{}, 0
			for l := range m.Layers {
				switch b := m.block(l); b.Kind {
				case group.Window:
					spans[b.Span]++
				case group.None:
					none++
				}
			}
			require.Equal(t, c.none, none)
			require.Len(t, spans, len(c.spans))
			for span, layers := range c.spans {
				require.Equal(t, layers, spans[span])
			}
			cfg, err := m.Complete(kvcache.Config{Storage: kvcache.Storage{K: backend.F16}, Memory: kvcache.Memory{Layout: kvcache.Paged}}, nil)
			require.NoError(t, err)
			bytes, err := cfg.BytesPerToken()
			require.NoError(t, err)
			require.EqualValues(t, c.bytes, bytes)
			said := 0
			for _, u := range cannot {
				if strings.Contains(u.Error(), c.why) {
					said++
				}
			}
			require.Equal(t, 1, said, "%s in %v, once", c.why, cannot)
		})
	}
}

// No size is given where nothing says which layers keep keys and values.
func TestForeignFamiliesWithoutASize(t *testing.T) {
	for config, why := range map[string]string{
		`"mamba_d_conv":4`:                         "has layers that keep a state",
		`"mamba_d_conv":4,"layer_types":["x","y"]`: `has type "x", of which it is not known what it keeps`,
		`"state_size":128`:                         "has layers that keep a state",
		`"is_encoder_decoder":true`:                "is_encoder_decoder",
		`"block_configs":[{}]`:                     "block_configs",
		`"layer_types":["mamba","mamba"]`:          "has no layer that keeps keys and values",
		`"layer_types":["full_attention","attention"],"num_key_value_heads":"2"`: `num_key_value_heads: is "2", need an integer`,
	} {
		dir := t.TempDir()
		text := `{"model_type":"other","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":2,` + config + `}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
		_, _, err := LoadHeader(dir)
		require.ErrorContains(t, err, why)
	}
}
