package runner

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// A model in GGUF, its weights stacked, fused, permuted and named as llama.cpp has them, has the logits that it has as Hugging Face's folder,
// which TestArchitectures compares with another program.

// twin is the same model in both formats.
type twin struct {
	config map[string]any // config.json, besides common
	arch   string
	meta   map[string]any // besides common, without the architecture in front
	arrays []array        // of Hugging Face
	names  []string       // of what is not common, there and here
	change func(list []array) []array
}

// sizes of twins: rows of 32, so that all types of GGUF can have them.
const twinDim, twinHeads, twinKV, twinHidden, twinVocab, twinLayers = 32, 4, 2, 64, 7, 2

// weight is a tensor of multiples of 1/64, of which no two are alike.
func weight(name string, shape ...int) array {
	size, _ := backend.Mul(shape...)
	a := array{name: name, shape: shape, data: make([]float32, size)}
	state := uint32(len(name))
	for _, c := range name {
		state = state*31 + uint32(c)
	}
	for i := range a.data {
		state = state*1664525 + 1013904223
		a.data[i] = float32(int(state>>24)%41-20) / 64
	}
	return a
}

// layers makes tensors of each layer, whose names have # for it.
func layers(of ...array) (all []array) {
	for l := range twinLayers {
		for _, a := range of {
			all = append(all, weight(strings.Replace(a.name, "#", fmt.Sprint(l), 1), a.shape...))
		}
	}
	return all
}

func shape(name string, shape ...int) array {
	return array{name: "model.layers.#." + name + ".weight", shape: shape}
}

func twinArrays(of ...array) []array {
	common := []array{shape("input_layernorm", twinDim), shape("post_attention_layernorm", twinDim), shape("self_attn.o_proj", twinDim, twinHeads*8)}
	all := layers(append(common, of...)...)
	return append(all, weight("model.embed_tokens.weight", twinVocab, twinDim), weight("model.norm.weight", twinDim), weight("lm_head.weight", twinVocab, twinDim))
}

func projections() []array {
	return []array{shape("self_attn.q_proj", twinHeads*8, twinDim), shape("self_attn.k_proj", twinKV*8, twinDim), shape("self_attn.v_proj", twinKV*8, twinDim)}
}

func gatedBlock(name string, hidden int) []array {
	return []array{shape(name+"gate_proj", hidden, twinDim), shape(name+"up_proj", hidden, twinDim), shape(name+"down_proj", twinDim, hidden)}
}

func expertArrays(n int) (all []array) {
	all = append(projections(), shape("mlp.gate", n, twinDim))
	for e := range n {
		all = append(all, gatedBlock(fmt.Sprintf("mlp.experts.%d.", e), 32)...)
	}
	return all
}

func biases(all []array, of float32) []array {
	for l := range twinLayers {
		for name, n := range map[string]int{"q": twinHeads * 8, "k": twinKV * 8, "v": twinKV * 8} {
			b := weight(fmt.Sprintf("model.layers.%d.self_attn.%s_proj.bias", l, name), n)
			for i := range b.data {
				b.data[i] *= of
			}
			all = append(all, b)
		}
	}
	return all
}

// stack makes one tensor of those of all experts.
func stack(list []array) (out []array) {
	at := map[string]int{}
	for _, a := range list {
		before, after, is := strings.Cut(a.name, "mlp.experts.")
		if !is {
			out = append(out, a)
			continue
		}
		_, part, _ := strings.Cut(after, ".")
		name := before + "mlp.experts." + part
		i, there := at[name]
		if !there {
			i = len(out)
			at[name] = i
			out = append(out, array{name: name, shape: append([]int{0}, a.shape...)})
		}
		out[i].shape[0]++
		out[i].data = append(out[i].data, a.data...)
	}
	return out
}

// permute puts rows of queries and keys in the order of llama's files: the two halves of a head in turns.
func permute(list []array) []array {
	for i, a := range list {
		if !strings.Contains(a.name, "q_proj.") && !strings.Contains(a.name, "k_proj.") {
			continue
		}
		data, cols := slices.Clone(a.data), len(a.data)/a.shape[0]
		for row := range a.shape[0] {
			head, r := row/8*8, row%8
			from := head + r%2*4 + r/2
			copy(data[row*cols:(row+1)*cols], a.data[from*cols:])
		}
		list[i].data = data
	}
	return list
}

var ggufTwinNames = []string{"model.embed_tokens", "token_embd", "model.norm", "output_norm", "lm_head", "output", "model.layers", "blk", "input_layernorm", "attn_norm",
	"post_attention_layernorm", "ffn_norm", "self_attn.o_proj", "attn_output", "self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "mlp.gate.", "ffn_gate_inp.",
	"mlp.experts.gate_proj", "ffn_gate_exps", "mlp.experts.up_proj", "ffn_up_exps", "mlp.experts.down_proj", "ffn_down_exps", "mlp.down_proj", "ffn_down", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up"}

var twins = map[string]twin{
	"qwen3moe": {config: map[string]any{"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": true, "head_dim": 8},
		arch: "qwen3moe", meta: map[string]any{"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32, "attention.key_length": 8, "attention.value_length": 8},
		arrays: twinArrays(append(expertArrays(4), shape("self_attn.q_norm", 8), shape("self_attn.k_norm", 8))...),
		names:  []string{"self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm"}, change: stack},
	"qwen2moe": {config: map[string]any{"model_type": "qwen2_moe", "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64},
		arch: "qwen2moe", meta: map[string]any{"expert_count": 3, "expert_used_count": 2, "expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 64},
		arrays: biases(twinArrays(append(append(expertArrays(3), gatedBlock("mlp.shared_expert.", 64)...), shape("mlp.shared_expert_gate", 1, twinDim))...), 1),
		names: []string{"mlp.shared_expert.gate_proj", "ffn_gate_shexp", "mlp.shared_expert.up_proj", "ffn_up_shexp", "mlp.shared_expert.down_proj", "ffn_down_shexp",
			"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
		change: func(list []array) []array {
			list = stack(list)
			for i := range list {
				if strings.Contains(list[i].name, "shared_expert_gate") {
					list[i].shape = []int{twinDim}
				}
			}
			return list
		}},
	// Mixtral is that without a shared expert and biases, and with scores whose sum is 1.
	"mixtral": {config: map[string]any{"model_type": "qwen2_moe", "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 0, "norm_topk_prob": true},
		arch: "llama", meta: map[string]any{"expert_count": 3, "expert_used_count": 2, "feed_forward_length": 32},
		arrays: biases(twinArrays(expertArrays(3)...), 0), change: func(list []array) []array {
			return permute(slices.DeleteFunc(stack(list), func(a array) bool { return strings.HasSuffix(a.name, "bias") }))
		}},
	// A Llama that was made of Qwen2 has no bias of its outputs.
	"llama-biased": {config: map[string]any{"model_type": "qwen2"}, arch: "llama", arrays: biases(twinArrays(append(projections(), gatedBlock("mlp.", twinHidden)...)...), 1), change: permute},
	"phi3": {config: map[string]any{"model_type": "phi3", "sliding_window": 5, "partial_rotary_factor": 0.75},
		arch: "phi3", meta: map[string]any{"attention.sliding_window": 5, "rope.dimension_count": 6, "rope.scaling.attn_factor": 1.0},
		arrays: twinArrays(shape("self_attn.qkv_proj", (twinHeads+2*twinKV)*8, twinDim), shape("mlp.gate_up_proj", 2*twinHidden, twinDim), shape("mlp.down_proj", twinDim, twinHidden)),
		names:  []string{"self_attn.qkv_proj", "attn_qkv", "mlp.gate_up_proj", "ffn_up"}},
	"phi3-long": {config: map[string]any{"model_type": "phi3", "original_max_position_embeddings": 48, "max_position_embeddings": 96, "rope_scaling": map[string]any{"type": "longrope",
		"short_factor": []float64{1, 1, 1, 1}, "long_factor": []float64{1, 2, 3, 4}}},
		arch: "phi3", meta: map[string]any{"rope.dimension_count": 8, "context_length": 96, "rope.scaling.type": "longrope", "rope.scaling.original_context_length": 48, "rope.scaling.attn_factor": math.Sqrt(1 + math.Log(2)/math.Log(48))},
		arrays: twinArrays(shape("self_attn.qkv_proj", (twinHeads+2*twinKV)*8, twinDim), shape("mlp.gate_up_proj", 2*twinHidden, twinDim), shape("mlp.down_proj", twinDim, twinHidden)),
		names:  []string{"self_attn.qkv_proj", "attn_qkv", "mlp.gate_up_proj", "ffn_up"}, change: func(list []array) []array {
			return append(list, array{"rope_factors_short.weight", []int{4}, []float32{1, 1, 1, 1}}, array{"rope_factors_long.weight", []int{4}, []float32{1, 2, 3, 4}})
		}},
}

// metaNumber is a value of GGUF's metadata, a number or a text.
func metaNumber(v any) []byte {
	if s, ok := v.(string); ok {
		return join(u32(ggufString), text(s))
	}
	if f, ok := v.(float64); ok {
		return join(u32(ggufF32), u32(math.Float32bits(float32(f))))
	}
	return join(u32(ggufU32), u32(uint32(v.(int))))
}

// gguf is the model in GGUF, matrices in a type.
func (tw twin) gguf(kind string) []byte {
	list := slices.Clone(tw.arrays)
	if tw.change != nil {
		list = tw.change(list)
	}
	names := strings.NewReplacer(append(slices.Clone(tw.names), ggufTwinNames...)...)
	for i := range list {
		list[i].name = names.Replace(list[i].name)
	}
	meta := craftMeta(Config{Vocab: twinVocab})
	maps.DeleteFunc(meta, func(key string, _ []byte) bool {
		return strings.HasPrefix(key, "llama.") || strings.Contains(key, ".ggml.")
	})
	meta["general.architecture"] = join(u32(ggufString), text(tw.arch))
	all := map[string]any{"embedding_length": twinDim, "feed_forward_length": twinHidden, "block_count": twinLayers, "attention.head_count": twinHeads, "attention.head_count_kv": twinKV,
		"context_length": 64, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 10000.0}
	maps.Copy(all, tw.meta)
	for key, value := range all {
		meta[tw.arch+"."+key] = metaNumber(value)
	}
	return craftGGUF(meta, list, kind)
}

func (tw twin) folder() map[string][]byte {
	config := map[string]any{"hidden_size": twinDim, "intermediate_size": twinHidden, "num_hidden_layers": twinLayers, "num_attention_heads": twinHeads, "num_key_value_heads": twinKV,
		"vocab_size": twinVocab, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2}
	maps.Copy(config, tw.config)
	data, _ := json.Marshal(config)
	return map[string][]byte{"config.json": data, "model.safetensors": craftSafetensors(tw.arrays, "F32")}
}

func TestGGUFArchitectures(t *testing.T) {
	be := openCPU(t)
	tokens := make([]uint32, 40)
	for i := range tokens {
		tokens[i] = uint32(i * i % twinVocab)
	}
	logits := func(m *Model) (all []float32) {
		r := newRunner(t, be, m, Options{Cache: kvcache.Config{Storage: kvcache.Storage{K: backend.F32}, Memory: kvcache.Memory{Capacity: 48}}})
		seq, _, err := r.Pool().Open(tokens, kvcache.OpenOptions{NoReuse: true})
		require.NoError(t, err)
		feed(t, r, seq, tokens, 7, func(_ int, logits []float32) { all = append(all, logits...) })
		require.NoError(t, seq.Release())
		return all
	}
	for name, tw := range twins {
		t.Run(name, func(t *testing.T) {
			m, _, err := LoadFS(folder(tw.folder()), ".")
			require.NoError(t, err)
			want := logits(m)
			largest := float64(max(slices.Max(want), -slices.Min(want)))
			for kind, within := range map[string]float64{"F32": 2e-6, "F16": 2e-6, "Q8_0": 2e-6} {
				g, _, err := LoadFS(folder(map[string][]byte{"m.gguf": tw.gguf(kind)}), "m.gguf")
				require.NoError(t, err, kind)
				require.Equal(t, m.Context, g.Context)
				elements := 0
				for _, a := range tw.arrays {
					elements += len(a.data)
				}
				if name == "phi3" { // whose tensors are divided when they are loaded
					require.Equal(t, []int{elements, elements}, []int{m.Parameters, g.Parameters})
					require.Equal(t, len(tw.arrays), m.Types["F32"])
				}
				got := logits(g)
				for i := range want {
					require.InDelta(t, want[i], got[i], within*largest, "%s, logit %d", kind, i)
				}
			}
		})
	}
}

// What a file has beyond its architecture, or lacks, is said by its header.
func TestGGUFIsSurveyed(t *testing.T) {
	c := craftConfig(8)
	f32 := func(v float32) []byte { return join(u32(ggufF32), u32(math.Float32bits(v))) }
	list := func(values ...uint32) []byte {
		out := join(u32(ggufArray), u32(ggufU32), u64(uint64(len(values))))
		for _, v := range values {
			out = append(out, u32(v)...)
		}
		return out
	}
	for name, tc := range map[string]struct {
		meta    map[string][]byte
		arrays  []array
		without string // of the arrays
		feature string // that is refused
		field   string // of a broken file
	}{
		"plain":                 {},
		"angles":                {arrays: []array{weight("blk.0.attn_rot_embd.weight", 2)}},
		"bias of a block":       {arrays: []array{weight("blk.1.ffn_down.bias", 8), weight("blk.0.ffn_down.bias", 8)}, feature: "tensor blk.0.ffn_down.bias (one of 2 that its architecture does not have)"},
		"norms of queries":      {arrays: []array{weight("blk.0.attn_q_norm.weight", 4)}, feature: "tensor blk.0.attn_q_norm.weight (one of 1 that its architecture does not have)"},
		"a layer more":          {arrays: []array{weight("blk.2.attn_norm.weight", 8)}, feature: "tensor blk.2.attn_norm.weight (one of 1 that its architecture does not have)"},
		"factors of Phi":        {arrays: []array{weight("rope_factors_long.weight", 2)}, feature: "tensor rope_factors_long.weight (one of 1 that its architecture does not have)"},
		"a tensor missing":      {without: "blk.1.ffn_norm.weight", field: "tensor blk.1.ffn_norm.weight"},
		"scale":                 {meta: map[string][]byte{"llama.attention.scale": f32(0.25)}, feature: "llama.attention.scale 0.25, where its architecture has 0.5,"},
		"the usual scale":       {meta: map[string][]byte{"llama.attention.scale": f32(0.5)}},
		"scaled embeddings":     {meta: map[string][]byte{"llama.embedding_scale": f32(12)}, feature: "llama.embedding_scale 12"},
		"ALiBi":                 {meta: map[string][]byte{"llama.attention.max_alibi_bias": f32(8)}, feature: "llama.attention.max_alibi_bias 8"},
		"layers alike":          {meta: map[string][]byte{"llama.attention.head_count_kv": list(1, 1), "llama.attention.head_count": list(2, 2), "llama.feed_forward_length": list(8, 8)}},
		"layers that differ":    {meta: map[string][]byte{"llama.attention.head_count_kv": list(1, 2)}, feature: "metadata llama.attention.head_count_kv [1 2], layers that are not alike,"},
		"hidden ones":           {meta: map[string][]byte{"llama.feed_forward_length": list(8, 16)}, feature: "metadata llama.feed_forward_length [8 16], layers that are not alike,"},
		"too few layers":        {meta: map[string][]byte{"llama.attention.head_count_kv": list(1)}, field: "metadata llama.attention.head_count_kv"},
		"experts one by one":    {meta: map[string][]byte{"llama.expert_count": metaNumber(2), "llama.expert_used_count": metaNumber(1)}, arrays: []array{weight("blk.0.ffn_gate.0.weight", 8, 8)}, feature: "a tensor for each expert in a GGUF file"},
		"a window":              {meta: map[string][]byte{"llama.attention.sliding_window": metaNumber(3)}, feature: "llama.attention.sliding_window 3"},
		"an unknown vocabulary": {meta: map[string][]byte{"tokenizer.ggml.model": join(u32(ggufString), text("gpt2")), "tokenizer.ggml.pre": join(u32(ggufString), text("viking"))}, feature: `the pre-tokenizer "viking" of its vocabulary`},
	} {
		t.Run(name, func(t *testing.T) {
			meta := craftMeta(c)
			maps.Copy(meta, tc.meta)
			arrays := slices.DeleteFunc(append(craftArrays(c, ggufWeights), tc.arrays...), func(a array) bool { return a.name == tc.without })
			path := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, os.WriteFile(path, craftGGUF(meta, arrays, "F32"), 0o600))
			m, _, err := Load(path, "", nil)
			_, cannot, lenient := LoadHeader(path)
			switch {
			case tc.feature != "":
				unsupported(t, err, path, tc.feature)
				require.NoError(t, lenient)
				require.Equal(t, err, error(cannot[0]), "and doctor says the same")
			case tc.field != "":
				var broken ErrFile
				require.ErrorAs(t, err, &broken)
				require.Equal(t, tc.field, broken.Field)
				if tc.without == "" {
					require.Equal(t, err, lenient)
					break
				}
				require.NoError(t, lenient, "the size of a cache does not depend on weights")
				require.Contains(t, cannot[0].Error(), broken.Field)
			default:
				require.NoError(t, err)
				require.NoError(t, m.Close())
				require.NoError(t, lenient)
				require.Empty(t, cannot)
			}
		})
	}
}

// A refusal has the file's own name of a setting, and says what is run.
func TestGGUFSettingsAreNamed(t *testing.T) {
	for key, want := range map[string]struct {
		value        any
		says, remedy string
	}{
		"attention.scale":   {0.25, "qwen3moe.attention.scale 0.25, where its architecture has 0.353553,", "convert_hf_to_gguf.py"},
		"residual_scale":    {2.0, "qwen3moe.residual_scale 2", "it runs models where that is 1 or not there"},
		"rope.scaling.type": {"longrope", "qwen3moe.rope.scaling.type longrope", "it runs default, linear, llama3, none, yarn"},
	} {
		tw := twins["qwen3moe"]
		tw.meta = maps.Clone(tw.meta)
		tw.meta[key] = want.value
		_, _, err := LoadFS(folder(map[string][]byte{"m.gguf": tw.gguf("F32")}), "m.gguf")
		unsupported(t, err, "m.gguf", want.says)
		require.ErrorContains(t, err, want.remedy)
	}
}

// No byte of a weight is looked at before all that is wrong with names and shapes is known.
func TestSurveyReadsNoWeights(t *testing.T) {
	c := craftConfig(256)
	var arrays []array
	for _, a := range craftArrays(c, ggufWeights) {
		a.data = a.data[:len(a.data)/256*36] // bytes of Q4_K, in a file of F32
		if len(a.shape) == 1 {
			a.data = make([]float32, 256)
		}
		for i := range a.data {
			a.data[i] = float32(math.NaN())
		}
		arrays = append(arrays, a)
	}
	arrays = slices.DeleteFunc(arrays, func(a array) bool { return a.name == "blk.1.ffn_down.weight" })
	data := craftGGUF(craftMeta(c), arrays, "F32")
	for _, a := range arrays {
		if len(a.shape) == 2 {
			binary.LittleEndian.PutUint32(data[headerOf(t, data, a.name):], 12)
		}
	}
	_, _, err := LoadFS(folder(map[string][]byte{"m.gguf": data}), "m.gguf")
	require.ErrorContains(t, err, "tensor blk.1.ffn_down.weight: is missing")
}
