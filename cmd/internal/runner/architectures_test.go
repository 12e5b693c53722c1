package runner

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// By how much logits may differ from those in float64, as a part of the largest.
var within = map[backend.DType]float64{backend.F32: 1e-5, backend.F16: 3e-3}

// Every architecture computes the logits that another program computes in float64, in both spellings of its configuration,
// both layouts, with caches in 32 and in 16 bits, and whatever steps a text is cut into.
func TestArchitectures(t *testing.T) {
	for _, f := range figures(t) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			be := openCPU(t)
			four, five := f.load(t, "4"), f.load(t, "5")
			require.Equal(t, four.Config, five.Config, "both spellings say the same")
			if f.Configs["4"]["quantization_config"] == nil { // of which decoders cannot be compared
				require.Equal(t, four.Layers, five.Layers)
			}
			off := measure(t, f, backend.Erase[*cpu.Buffer](remote{be}), four, cacheOf(kvcache.Paged, backend.F32), 50)
			require.LessOrEqual(t, off, within[backend.F32], "a device whose memory the host does not see")
			for _, layout := range layouts {
				if layout == kvcache.Contiguous && onlyPaged(four) {
					_, err := New(be, four, Options{Cache: cacheOf(layout, backend.F32)})
					require.ErrorIs(t, err, kvcache.ErrConfig{})
					continue
				}
				for _, dt := range []backend.DType{backend.F32, backend.F16} {
					for _, step := range []int{1, 7, 64} {
						if race.Enabled && step < 64 {
							continue
						}
						off := measure(t, f, be, five, cacheOf(layout, dt), step)
						require.LessOrEqual(t, off, within[dt], "%v, %v, steps of %d", layout, dt, step)
						require.NotZero(t, off)
					}
				}
			}
		})
	}
}

// What was computed for another sequence, or before a fork, gives the same logits.
func TestArchitecturesReuse(t *testing.T) {
	for _, f := range figures(t) {
		m := f.load(t, "4")
		for _, policy := range []prefix.Policy{prefix.LRU, prefix.Off} {
			t.Run(fmt.Sprint(f.Name, "/", policy), func(t *testing.T) {
				t.Parallel()
				be := openCPU(t)
				cfg := cacheOf(kvcache.Paged, backend.F32)
				cfg.Memory.Prefix = policy
				r := newRunner(t, be, m, Options{Cache: cfg})
				text := f.Text()
				check := func(at int, logits []float32) {
					require.LessOrEqual(t, f.off(at, logits), within[backend.F32], "position %d", at)
				}
				for i := range 3 { // the whole text, then its beginning and the whole again
					seq, match, err := r.Pool().Open(text, kvcache.OpenOptions{})
					require.NoError(t, err)
					require.Equal(t, i > 0 && policy != prefix.Off, match.Cached >= 96, "found %d tokens the %d. time", match.Cached, i+1)
					feed(t, r, seq, text[match.Cached:], 31, check)
					require.NoError(t, seq.Release())
				}

				seq, match, err := r.Pool().Open(text[:75], kvcache.OpenOptions{})
				require.NoError(t, err)
				feed(t, r, seq, text[match.Cached:75], 31, check)
				fork, err := seq.Fork()
				require.NoError(t, err)
				other := append(slices.Clone(text[:75]), text[10:60]...)
				var last []float32
				feed(t, r, fork, other[75:], 13, func(_ int, logits []float32) { last = slices.Clone(logits) })
				feed(t, r, seq, text[75:], 9, check)
				require.NoError(t, fork.Release())
				require.NoError(t, seq.Release())
				seq, _, err = r.Pool().Open(other, kvcache.OpenOptions{NoReuse: true})
				require.NoError(t, err)
				var alone []float32
				feed(t, r, seq, other, 64, func(_ int, logits []float32) { alone = slices.Clone(logits) })
				for i := range alone {
					require.InDelta(t, alone[i], last[i], 2*within[backend.F32]*f.Largest, "token %d after the fork", i)
				}
				require.NoError(t, seq.Release())
			})
		}
	}
}

// A folder on disk generates the same text in both layouts, and with the cache of an earlier Generate.
func TestArchitecturesGenerate(t *testing.T) {
	be := openCPU(t)
	for _, f := range figures(t) {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, f.Folder("5")))
		m, tok, err := Load(dir, "", nil)
		require.NoError(t, err)
		want := []string{}
		for _, layout := range slices.Backward(layouts) {
			if layout == kvcache.Contiguous && onlyPaged(m) {
				continue
			}
			r := newRunner(t, be, m, Options{Chunk: 20, Cache: cacheOf(layout, backend.F32)})
			prompts := []string{strings.Repeat("Once upon a time. ", 5), strings.Repeat("Once upon a time. ", 4) + "Or not.", "A"}
			for range 2 {
				got, _ := texts(t, r, tok, 20, Sampling{}, prompts...)
				if len(want) == 0 {
					want = got
				}
				require.Equal(t, want, got, "%s, %v", f.Name, layout)
			}
		}
		require.NotEmpty(t, strings.Join(want, ""))
	}
}

// The defaults of the configuration classes, where a file says no more than its model_type.
func TestConfigurationClasses(t *testing.T) {
	for name, want := range map[string]struct{ layers, dim, heads, kv, headDim, context, hidden int }{
		"llama": {32, 4096, 32, 32, 128, 2048, 11008}, "mistral": {32, 4096, 32, 8, 128, 131072, 14336},
		"qwen2": {32, 4096, 32, 32, 128, 32768, 22016}, "qwen3": {32, 4096, 32, 32, 128, 32768, 22016},
		"gemma2": {26, 2304, 8, 4, 256, 8192, 9216}, "gemma3": {26, 2304, 8, 4, 256, 131072, 9216}, "gemma3_text": {26, 2304, 8, 4, 256, 131072, 9216},
		"gpt_oss": {36, 2880, 64, 8, 64, 131072, 2880}, "llama4": {48, 5120, 40, 8, 128, 131072, 16384}, "llama4_text": {48, 5120, 40, 8, 128, 131072, 16384},
		"qwen3_next": {48, 2048, 16, 2, 256, 32768, 5632}, "qwen2_moe": {24, 2048, 16, 16, 128, 32768, 5632}, "qwen3_moe": {24, 2048, 32, 4, 64, 32768, 6144},
		"mixtral": {32, 4096, 32, 8, 128, 131072, 14336}, "deepseek_v3": {61, 7168, 128, 1, 576, 4096, 18432},
	} {
		c, err := configOf(file{"config.json", fmt.Appendf(nil, `{"model_type":%q}`, name)})
		require.NoError(t, err, name)
		b := c.block(0)
		require.Equal(t, want, struct{ layers, dim, heads, kv, headDim, context, hidden int }{c.Layers, c.Dim, b.Heads, b.KVHeads, b.HeadDim, c.Context, b.Hidden}, name)
	}
	for _, name := range []string{"deepseek_v2", "deepseek_v3"} { // whose class has routed experts
		_, err := configOf(file{"config.json", fmt.Appendf(nil, `{"model_type":%q,"n_routed_experts":null}`, name)})
		require.NoError(t, err)
	}
	c, err := configOf(file{"config.json", []byte(`{"model_type":"deepseek_v3"}`)})
	require.NoError(t, err)
	require.Equal(t, experts{}, c.block(2).Experts)
	require.Equal(t, experts{Count: 256, Top: 8, Hidden: 2048, Sigmoid: true, Normed: true, Scale: 2.5, Groups: 8, TopGroups: 4, GroupBest: 2, Correction: true,
		Shared: 2048, SharedName: "shared_experts", Router: "gate"}, c.block(3).Experts)
}

// Kimi K2 has no configuration class of its own: its file says everything, and means what DeepSeek-V3's does.
func TestKimi(t *testing.T) {
	c, err := configOf(file{"config.json", []byte(`{"model_type":"kimi_k2","hidden_size":7168,"intermediate_size":18432,"moe_intermediate_size":2048,"num_hidden_layers":61,"num_attention_heads":64,
		"num_key_value_heads":64,"n_routed_experts":384,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":1,"moe_layer_freq":1,"n_group":1,"topk_group":1,"norm_topk_prob":true,
		"routed_scaling_factor":2.827,"scoring_func":"sigmoid","topk_method":"noaux_tc","q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
		"vocab_size":163840,"max_position_embeddings":131072,"rms_norm_eps":1e-6,"bos_token_id":163584,"eos_token_id":163585,"rope_theta":50000.0,
		"rope_scaling":{"type":"yarn","factor":32.0,"original_max_position_embeddings":4096,"beta_fast":1.0,"beta_slow":1.0,"mscale":1.0,"mscale_all_dim":1.0},
		"quantization_config":{"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic","weight_block_size":[128,128]}}`)})
	require.NoError(t, err)
	require.Equal(t, [2]int{128, 128}, c.ScaleBlock)
	turns, err := c.block(0).RoPE.Resolve(c.HeadDim)
	require.NoError(t, err)
	for pair := range 32 { // pair 19.2 turns once over the original context: those up to 19 stay, and those from 20 on are slower
		by := map[bool]float64{true: 1, false: 32}[pair <= 19]
		require.InEpsilon(t, math.Pow(50000, -float64(pair)/32)/by, turns.Frequency(pair), 1e-6, "pair %d", pair)
	}
	require.Equal(t, experts{}, c.block(0).Experts)
	require.Equal(t, experts{Count: 384, Top: 8, Hidden: 2048, Sigmoid: true, Normed: true, Scale: 2.827, Groups: 1, TopGroups: 1, GroupBest: 2, Correction: true,
		Shared: 2048, SharedName: "shared_experts", Router: "gate"}, c.block(60).Experts)
}

// Which layers have experts is what each family's settings say.
func TestLayersWithExperts(t *testing.T) {
	for config, want := range map[string]string{
		`{"model_type":"qwen3_moe"}`: "++++", `{"model_type":"qwen3_moe","decoder_sparse_step":2}`: "-+-+", `{"model_type":"qwen3_moe","mlp_only_layers":[0,3]}`: "-++-",
		`{"model_type":"qwen3_moe","mlp_only_layers":null,"decoder_sparse_step":3}`: "--+-", `{"model_type":"qwen3_moe","num_experts":0}`: "----", `{"model_type":"mixtral"}`: "++++",
		`{"model_type":"deepseek_v3"}`: "---+", `{"model_type":"deepseek_v3","first_k_dense_replace":0,"moe_layer_freq":2}`: "+-+-", `{"model_type":"deepseek_v3","n_routed_experts":0}`: "----",
		`{"model_type":"deepseek_v2","num_experts_per_tok":6}`: "++++", `{"model_type":"deepseek_v2","first_k_dense_replace":4}`: "----",
		`{"model_type":"deepseek_v2","num_experts_per_tok":6,"first_k_dense_replace":1,"moe_layer_freq":3}`: "---+",
	} {
		c, err := configOf(file{"config.json", []byte(strings.Replace(config, "{", `{"num_hidden_layers":4,`, 1))})
		require.NoError(t, err, config)
		got := ""
		for l := range 4 {
			got += map[bool]string{true: "+", false: "-"}[c.block(l).Experts.Count > 0]
		}
		require.Equal(t, want, got, config)
	}
}

// What a configuration asks for and the runner cannot is refused by its name.
func TestConfigurationsAreRefused(t *testing.T) {
	for config, feature := range map[string]string{
		`{"model_type":"deepseek_v3","topk_method":"best"}`:                                     "topk_method best",
		`{"model_type":"deepseek_v3","scoring_func":"tanh"}`:                                    "scoring_func tanh",
		`{"model_type":"deepseek_v2","num_experts_per_tok":6,"norm_topk_prob":true}`:            "norm_topk_prob true",
		`{"model_type":"llama","quantization_config":{"quant_method":"mxfp4"}}`:                 "a model with weights quantized by mxfp4 (configuration quantization_config)",
		`{"model_type":"gpt_oss","swiglu_limit":5}`:                                             "swiglu_limit 5",
		`{"model_type":"gemma3_text","use_bidirectional_attention":true}`:                       "use_bidirectional_attention true",
		`{"model_type":"gemma2","use_bidirectional_attention":true}`:                            "use_bidirectional_attention true",
		`{"model_type":"gemma2","hidden_activation":"relu"}`:                                    "hidden_activation relu",
		`{"model_type":"qwen3","rope_scaling":{"rope_type":"dynamic","factor":2}}`:              "rope_scaling.rope_type dynamic",
		`{"model_type":"llama","num_hidden_layers":1,"layer_types":["linear_attention"]}`:       "layer_types linear_attention in this family",
		`{"model_type":"llama","num_hidden_layers":1,"layer_types":["moe"]}`:                    "layer_types moe",
		`{"model_type":"gemma3","text_config":{"rope_scaling":{"type":"longrope","factor":2}}}`: "rope_scaling.type longrope",
		`{"model_type":"llama","hidden_act":"swiglu_oai"}`:                                      "hidden_act swiglu_oai",
		`{"model_type":"mamba"}`: "model_type mamba",
		`{"model_type":"paligemma","text_config":{"model_type":"gemma2"}}`: "model_type paligemma with a text_config",
		`{"model_type":"gemma3","text_config":{"model_type":"mamba"}}`:     "model_type mamba",
	} {
		_, err := configOf(file{"config.json", []byte(config)})
		unsupported(t, err, "config.json", feature)
	}
	for config, field := range map[string]string{
		`{"hidden_size":8}`: "model_type",
		`{"model_type":"llama","layer_types":["full_attention"]}`:                                           "layer_types",
		`{"model_type":"gemma2","attn_logit_softcapping":-50}`:                                              "soft cap",
		`{"model_type":"gemma2","final_logit_softcapping":-30}`:                                             "soft cap",
		`{"model_type":"mistral","sliding_window":-1}`:                                                      "sliding_window",
		`{"model_type":"gemma2","query_pre_attn_scalar":0}`:                                                 "scale of attention",
		`{"model_type":"gemma2","num_hidden_layers":512,"query_pre_attn_scalar":0}`:                         "scale of attention",
		`{"model_type":"gemma2","num_hidden_layers":513}`:                                                   "num_hidden_layers",
		`{"model_type":"gemma3_text","rope_local_base_freq":"x"}`:                                           "rope_local_base_freq",
		`{"model_type":"llama4_text","attn_temperature_tuning":"x"}`:                                        "attn_temperature_tuning",
		`{"model_type":"llama4_text","floor_scale":0}`:                                                      "floor_scale",
		`{"model_type":"llama4_text","no_rope_layers":[1,1,1,0]}`:                                           "no_rope_layers",
		`{"model_type":"llama4_text","no_rope_layers":["x"]}`:                                               "no_rope_layers[0]",
		`{"model_type":"qwen3_next","linear_num_key_heads":0}`:                                              "linear_num_key_heads",
		`{"model_type":"qwen3_next","linear_num_key_heads":3}`:                                              "linear value heads",
		`{"model_type":"qwen3_next","num_experts_per_tok":513}`:                                             "num_experts_per_tok",
		`{"model_type":"gpt_oss","num_local_experts":0}`:                                                    "num_local_experts",
		`{"model_type":"deepseek_v3","n_routed_experts":null,"kv_lora_rank":0}`:                             "kv_lora_rank",
		`{"model_type":"deepseek_v2"}`:                                                                      "num_experts_per_tok",
		`{"model_type":"deepseek_v3","n_routed_experts":-1}`:                                                "n_routed_experts",
		`{"model_type":"deepseek_v3","n_routed_experts":12}`:                                                "n_group",
		`{"model_type":"deepseek_v3","n_group":64,"topk_group":1}`:                                          "n_group",
		`{"model_type":"deepseek_v3","topk_group":9}`:                                                       "topk_group",
		`{"model_type":"deepseek_v3","moe_layer_freq":0}`:                                                   "moe_layer_freq",
		`{"model_type":"deepseek_v3","n_shared_experts":5000}`:                                              "n_shared_experts",
		`{"model_type":"deepseek_v3","routed_scaling_factor":-1}`:                                           "routed_scaling_factor",
		`{"model_type":"mixtral","num_experts_per_tok":9}`:                                                  "num_experts_per_tok",
		`{"model_type":"qwen3_moe","moe_intermediate_size":0}`:                                              "moe_intermediate_size",
		`{"model_type":"llama","quantization_config":{"quant_method":"fp8","weight_block_size":[128]}}`:     "quantization_config",
		`{"model_type":"llama","quantization_config":{"quant_method":"fp8","weight_block_size":[0,128]}}`:   "quantization_config",
		`{"model_type":"llama","quantization_config":{"quant_method":"fp8","weight_block_size":["x","y"]}}`: "quantization_config",
		`{"model_type":"llama","quantization_config":{"quant_method":"fp8","weight_block_size":128}}`:       "quantization_config",
		`null`: "configuration",
		`[]`:   "configuration",
	} {
		var err error
		bounded(t, len(config), func() { _, err = configOf(file{"config.json", []byte(config)}) })
		refused(t, err, "config.json", field, "", config)
	}
}

// Weights in several files are those that the index names, beside it.
func TestShards(t *testing.T) {
	cfg := craftConfig(4)
	list := craftArrays(cfg, huggingFace)
	load := func(index string, files map[string][]byte) error {
		all := map[string][]byte{"config.json": craftJSON(cfg, ""), "model.safetensors.index.json": []byte(index)}
		for name, data := range files {
			all[name] = data
		}
		_, _, err := LoadFS(folder(all), ".")
		return err
	}
	a, b := craftSafetensors(list[:3], "F32"), craftSafetensors(list[3:], "F32")
	index := `{"weight_map":{"x":"a.safetensors","y":"b.safetensors"}}`
	require.NoError(t, load(index, map[string][]byte{"a.safetensors": a, "b.safetensors": b}))
	for _, c := range []struct {
		index, field, why string
		files             map[string][]byte
	}{
		{index, "tensor", "is in two files", map[string][]byte{"a.safetensors": b, "b.safetensors": b}},
		{index, "header", "", map[string][]byte{"a.safetensors": a, "b.safetensors": b[:20]}},
		{`{"weight_map":{"x":"a.safetensors"}}`, "tensor", "is missing", map[string][]byte{"a.safetensors": a}},
		{`{"weight_map":{"x":"../a.safetensors"}}`, "weight_map", "beside the index", nil},
		{`{"weight_map":7}`, "index", "", nil},
	} {
		err := load(c.index, c.files)
		var f ErrFile
		require.ErrorAs(t, err, &f, c.index)
		require.Contains(t, f.Field, c.field)
		require.Contains(t, f.Why, c.why)
	}
	require.ErrorContains(t, load(index, map[string][]byte{"a.safetensors": a}), "b.safetensors")
}

// Qwen's windows are there where use_sliding_window says so, whatever sliding_window and layer_types say.
func TestWindowsOfQwen(t *testing.T) {
	for more, kind := range map[string]group.Kind{
		``: group.Full, `,"use_sliding_window":null`: group.Full, `,"use_sliding_window":true`: group.Window,
		`,"layer_types":["sliding_attention","sliding_attention"]`:                           group.Full,
		`,"layer_types":["full_attention","sliding_attention"],"use_sliding_window":true`:    group.Window,
		`,"use_sliding_window":true,"sliding_window":null`:                                   group.Full,
		`,"use_sliding_window":true,"max_window_layers":2`:                                   group.Full,
		`,"layer_types":["sliding_attention","sliding_attention"],"use_sliding_window":null`: group.Full,
	} {
		for _, name := range []string{"qwen2", "qwen3"} {
			config := fmt.Appendf(nil, `{"model_type":%q,"num_hidden_layers":2,"max_window_layers":1%s}`, name, more)
			c, err := configOf(file{"config.json", config})
			require.NoError(t, err)
			require.Equal(t, kind, c.block(1).Kind, string(config))
		}
	}
}

// Flags of Llama 4 are numbers in files of transformers 4: attn_temperature_tuning is 4 there, which was its class's default.
func TestFlagsOfLlama4(t *testing.T) {
	for more, want := range map[string]struct{ rotates, warm bool }{
		``: {false, true}, `,"attn_temperature_tuning":4`: {false, true}, `,"attn_temperature_tuning":true`: {false, true},
		`,"attn_temperature_tuning":0`: {}, `,"attn_temperature_tuning":false`: {}, `,"attn_temperature_tuning":null`: {},
		`,"no_rope_layers":[]`: {false, true}, `,"no_rope_layers":[0,0,0,1]`: {true, false}, `,"no_rope_layers":[true,true,true,false]`: {false, true},
	} {
		c, err := configOf(file{"config.json", fmt.Appendf(nil, `{"model_type":"llama4_text","num_hidden_layers":4%s}`, more)})
		require.NoError(t, err, more)
		b := c.block(3)
		require.Equal(t, want, struct{ rotates, warm bool }{!b.NoRoPE, b.WarmFloor > 0}, more)
	}
}

// What layers see is what layer_types says, in every family.
func TestLayerTypes(t *testing.T) {
	for _, name := range []string{"llama", "mistral", "gemma2"} {
		for types, kinds := range map[string][2]group.Kind{
			`"full_attention","sliding_attention"`: {group.Full, group.Window}, `"sliding_attention","full_attention"`: {group.Window, group.Full},
		} {
			config := fmt.Appendf(nil, `{"model_type":%q,"num_hidden_layers":2,"sliding_window":64,"layer_types":[%s]}`, name, types)
			c, err := configOf(file{"config.json", config})
			require.NoError(t, err)
			require.Equal(t, kinds, [2]group.Kind{c.block(0).Kind, c.block(1).Kind}, string(config))
		}
	}
}
