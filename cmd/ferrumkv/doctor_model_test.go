package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

// doctor --model shows what layers of each kind see, and what the cache makes of them.
func TestDoctorModel(t *testing.T) {
	folder := func(config string) string {
		dir := filepath.Join(t.TempDir(), "some-model")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
		return dir
	}
	gemma := folder(`{"model_type":"gemma3_text","hidden_size":1152,"num_attention_heads":4,"num_key_value_heads":1,"sliding_window":512}`)
	r := succeeds(t, "doctor", "--model", gemma, "--layout", "paged")
	require.Contains(t, r.stdout, "cache, for 26 layers of some-model, which was made for 131072 tokens\n")
	require.Regexp(t, `bytes of a token +4\.0 KiB\n`, r.stdout)
	require.Regexp(t, `activation type +f32 +model\n`, r.stdout)
	require.Regexp(t, `V type +f16`, r.stdout)
	require.Contains(t, r.stdout, "group            window: 22 layers in 6 parts, blocks of 16 tokens")
	require.Contains(t, r.stdout, "layers 0-4,6-10,12-16,18-22,24-25\n                   a window of 512 tokens, 4 query heads on 1 KV head of 256, scale 0.0625, theta 10000\n")
	require.Contains(t, r.stdout, "layers 5,11,17,23\n                   everything, 4 query heads on 1 KV head of 256, scale 0.0625, theta 1e+06\n")

	require.Regexp(t, `room +\d+ sequences of 4096 tokens in .*, less the model's weights, whose size is not known\n`, r.stdout)
	for _, layout := range []string{"contiguous", "paged"} {
		room := jsonLines(t, succeeds(t, "doctor", "--json", "--layout", layout, "--layers", "1", "--q-heads", "1", "--kv-heads", "1", "--head-dim", "64").stdout)[0]["cache"].(map[string]any)["room"].(map[string]any)
		each := room["capacity"].(float64) * 2 * 64 * 2 // the keys and values of a sequence, in 16 bits
		require.InEpsilon(t, room["bytes"].(float64), room["sequences"].(float64)*each, 0.05, layout)
	}
	room, err := roomFor(kvcache.Config{Model: kvcache.Model{Layers: 2, QHeads: 1, KVHeads: 1, HeadDim: 64}, Storage: kvcache.Storage{K: backend.F16},
		Memory: kvcache.Memory{Layout: kvcache.Paged, Capacity: 40, BlockSize: 16, MaxSeqs: 1}}, nil, 1000)
	require.NoError(t, err)
	require.Equal(t, &roomStatus{Capacity: 40, Bytes: 1000}, room)
	r = succeeds(t, "doctor", "--json", "--model", folder(`{"model_type":"qwen3_next","num_hidden_layers":4}`))
	cache := jsonLines(t, r.stdout)[0]["cache"].(map[string]any)
	layers := cache["layers"].([]any)
	require.Len(t, layers, 2)
	require.Equal(t, "a state", layers[0].(map[string]any)["sees"])
	require.EqualValues(t, 4*(3*8192+32*128*128), layers[0].(map[string]any)["state_bytes"])
	require.Contains(t, cache["settings"], map[string]any{"name": "layout", "value": "paged", "source": "model", "variable": "FERRUM_METAL_PAGED_KV"})

	r = succeeds(t, "doctor", "--model", folder(`{"model_type":"gpt_oss"}`))
	require.Contains(t, r.stdout, "a window of 128 tokens, 64 query heads on 8 KV heads of 64, sink logits, theta 150000, yarn by 32\n")
	// A token of the larger one, with 61 layers whose latents have 576 elements in 16 bits, and 128 heads.
	r = succeeds(t, "doctor", "--model", folder(`{"model_type":"deepseek_v3","first_k_dense_replace":61}`))
	require.Regexp(t, `bytes of a token +68\.6 KiB\n`, r.stdout)
	require.Regexp(t, `K type +f16`, r.stdout)
	require.NotContains(t, r.stdout, "V type", "values are in the keys")
	require.Contains(t, r.stdout, "layers 0-60      everything, 128 query heads on latents of 512 and 64 after them, scale 0.07217, theta 10000 on 64 dims\n")
	// What generate does not run is sized all the same, and it is said why.
	for config, says := range map[string][2]string{
		`{"model_type":"llama","quantization_config":{"quant_method":"awq"}}`: {`bytes of a token +512\.0 KiB\n`, "does not run     .*weights quantized by awq .* is not supported by this runner; the model that it was made of"},
		`{"model_type":"phi3","max_position_embeddings":131072,"sliding_window":262144,"rope_scaling":{"type":"longrope","short_factor":[1.0,1.05],"long_factor":[1.2,2]}}`: {
			`layers 0-31 +a window of 262144 tokens, 32 query heads on 32 KV heads of 96`, "does not run     .*longrope with a factor for each frequency is not supported by this runner; of this family it runs"},
	} {
		r = succeeds(t, "doctor", "--model", folder(config))
		require.Regexp(t, says[0], r.stdout)
		require.Regexp(t, says[1], r.stdout)
	}
	// So are weights that it does not read, where the folder has no others.
	for name, why := range map[string]string{"pytorch_model-00001-of-00002.bin": "it reads safetensors: most models have them, too", "consolidated.00.pth": "it reads safetensors, as Hugging Face has",
		"consolidated.safetensors": "the same folder on Hugging Face has", "model-00001-of-00002.safetensors": "that file says which weights are in which of the parts: download it from where the parts are"} {
		dir := folder(`{"model_type":"llama"}`)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		r = succeeds(t, "doctor", "--model", dir)
		require.Regexp(t, `bytes of a token +512\.0 KiB\n`, r.stdout)
		require.Regexp(t, "does not run     .*"+regexp.QuoteMeta(name)+".* is not supported by this runner; "+why, r.stdout)
		fails(t, []string{"generate", "--model", dir}, why)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), nil, 0o600))
		require.Contains(t, succeeds(t, "doctor", "--model", dir).stdout, "model.safetensors: contents: are empty: download the file again")
	}
	// A path that generate does not read is refused in its words, unless there is a config.json.
	dir := t.TempDir()
	fails(t, []string{"doctor", "--model", filepath.Join(dir, "none")}, "none: no such file or directory")
	fails(t, []string{"doctor", "--model", "meta-llama/Llama-3.2-1B"}, "--model meta-llama/Llama-3.2-1B: there is no such file or folder, and nothing is downloaded; 'hf download meta-llama/Llama-3.2-1B")
	weights := filepath.Join(dir, "m-00001-of-00002.gguf")
	require.NoError(t, os.WriteFile(weights, nil, 0o600))
	fails(t, []string{"doctor", "--model", dir}, "a folder of GGUF files is not supported by this runner; name the first of them, "+weights)
	fails(t, []string{"chat", "--model", dir}, "name the first of them, "+weights)
	// Models of experts as they are published: DeepSeek-V3 in FP8, gpt-oss in MXFP4, Qwen3-30B-A3B and Mixtral.
	for config, size := range map[string]string{
		`{"model_type":"deepseek_v3","quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}`: `68\.6 KiB`,
		`{"model_type":"gpt_oss","quantization_config":{"quant_method":"mxfp4"}}`:                                 `72\.0 KiB`,
		`{"model_type":"qwen3_moe","num_hidden_layers":48,"head_dim":128,"max_position_embeddings":40960}`:        `96\.0 KiB`,
		`{"model_type":"mixtral"}`: `128\.0 KiB`,
	} {
		r = succeeds(t, "doctor", "--model", folder(config))
		require.Regexp(t, `bytes of a token +`+size+`\n`, r.stdout)
		require.Equal(t, 1, strings.Count(r.stdout, "does not run"))
		require.Contains(t, r.stdout, "some-model: a folder without weights is not supported")
	}
	r = succeeds(t, "doctor", "--model", folder(`{"model_type":"phi3","sliding_window":2047}`)) // Phi-3-mini-4k
	require.Regexp(t, `layers 0-31 +a window of 2047 tokens, 32 query heads on 32 KV heads of 96`, r.stdout)
	r = succeeds(t, "doctor", "--json", "--model", folder(`{"model_type":"gpt_oss","quantization_config":{"quant_method":"gptq"}}`))
	require.Len(t, jsonLines(t, r.stdout)[0]["cache"].(map[string]any)["not_run"], 1)
	for config, why := range map[string]string{
		`{"model_type":"mamba"}`:                       "num_hidden_layers: is missing",
		`{"model_type":"mistral","sliding_window":-1}`: "window: have -1",
		`{`: "configuration",
	} {
		fails(t, []string{"doctor", "--model", folder(config)}, why)
	}
	fails(t, []string{"doctor", "--model", gemma, "--layers", "3"}, "--layers cannot be used with --model")
	fails(t, []string{"doctor", "--model", t.TempDir()}, "config.json")
}
