package runner

import (
	"maps"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// spellings are what other families call the settings that the size of a cache depends on.
var spellings = map[string][]string{
	"hidden_size":             {"n_embd", "n_embed", "d_model"},
	"num_hidden_layers":       {"n_layer", "n_layers", "num_layers"},
	"num_attention_heads":     {"n_head", "n_heads"},
	"num_key_value_heads":     {"num_kv_heads", "n_head_kv", "multi_query_group_num", "attn_config.kv_n_heads"},
	"head_dim":                {"kv_channels", "attention_head_dim"},
	"max_position_embeddings": {"n_positions", "n_ctx", "max_seq_len", "seq_length"},
	"sliding_window":          {"attention_window_size"},
	"sliding_window_pattern":  {"_sliding_window_pattern"},
}

// withoutKeys are types of layers that keep no keys and values, and what they keep.
var withoutKeys = map[string]string{
	"mamba": aState, "mamba2": aState, "conv": aState, "linear_attention": aState, "recurrent": aState, "lightning_attention": aState, otherLayers: aState,
	"mlp": "nothing", "moe": "nothing", sharing: "nothing of their own",
}

const aState, otherLayers, sharing = "a state that is not sized", "another kind", "those that read an earlier layer"

// foreign is a family that is not run, of which the settings are read that the size of a cache depends on. What else there is has a value that does no harm.
func (s *settings) foreign(name string) (f family) {
	s.refuse("model_type "+name, "it runs "+listed(families))
	s.flatten("attn_config")
	s.flatten("linear_attn_config")
	for key, others := range spellings {
		for _, other := range others {
			if s.values[s.own(key)] == nil && s.values[other] != nil {
				s.values[s.own(key)] = s.values[other]
			}
		}
	}
	if s.names == nil { // of a GGUF file they have one spelling
		maps.Copy(s.values, map[string]any{"vocab_size": float64(1 << 24), "intermediate_size": 1.0, "rms_norm_eps": 1e-5, "bos_token_id": nil, "eos_token_id": nil})
	}
	s.assume(map[string]any{"rms_norm_eps": 1e-5, "intermediate_size": 1.0, "max_position_embeddings": 0.0, "v_head_dim": 1.0})
	if get(s, "multi_query", false) && !get(s, "new_decoder_architecture", false) {
		s.values["num_key_value_heads"] = 1.0
	}
	if s.values["kv_lora_rank"] != nil && s.values["qk_rope_head_dim"] != nil {
		f.shape = latents
	}
	if s.values["index_head_dim"] != nil {
		s.refuse("an indexer (index_head_dim), whose keys are not sized,", "")
	}
	for _, key := range []string{"is_encoder_decoder", "block_configs"} {
		v := s.values[key]
		s.need(v == nil || v == false, s.section+" "+key, "is there: what such a model keeps is not known, and no size is given")
	}
	s.kinds(s.size("num_hidden_layers", 1<<9))
	_, typed := s.values["layer_types"].([]any)
	s.need(typed || !s.stateful(), s.section+" model_type", "%s has layers that keep a state, and nothing that is read says which: no size is given", name)
	s.support(typed, "with layer_types in its configuration it is known", "what layers of model_type %s see, which is taken to be everything unless layer_types says more,", name)
	return f
}

// stateful reports whether some layers keep a state, as their settings say.
func (s *settings) stateful() bool {
	for key, value := range s.values {
		first, _, _ := strings.Cut(key, "_")
		if value != nil && (withoutKeys[first] == aState || strings.HasPrefix(key, "ssm_") || strings.HasPrefix(key, "linear_") ||
			strings.Contains(key, ".ssm.") || strings.Contains(key, ".wkv.") || key == "state_size" || key == "rescale_every") {
			return true
		}
	}
	return false
}

// kinds makes layer_types for n layers of the settings that other families have in its place.
func (s *settings) kinds(n int) {
	if s.values["layer_types"] == nil {
		if kind := s.kindOf(n); kind != nil {
			types := make([]any, n)
			for l := range types {
				types[l] = kind(l)
			}
			s.values["layer_types"] = types
		}
	}
	types, _ := s.values["layer_types"].([]any)
	if shared := get(s, "num_kv_shared_layers", 0); shared > 0 && shared < n && len(types) == n {
		for l := n - shared; l < n; l++ {
			types[l] = sharing
		}
	}
}

// kindOf is the type of each of n layers; nil: no setting says it.
func (s *settings) kindOf(n int) func(layer int) any {
	for _, key := range []string{"layers_block_type", "block_types"} {
		if list, _ := s.values[key].([]any); len(list) > 0 {
			return func(l int) any {
				switch kind := list[l%len(list)]; kind {
				case "attention": // which see a window where there is one
					return map[bool]string{true: "sliding_attention", false: kind.(string)}[s.values["sliding_window"] != nil]
				case "hybrid", "g": // of Zamba2, attention beside a state
					return "full_attention"
				case "m":
					return "mamba"
				default:
					return kind
				}
			}
		}
	}
	letters := map[byte]string{'*': "full_attention", 'M': "mamba", '-': "mlp", 'E': "moe"}
	if pattern, _ := s.values["hybrid_override_pattern"].(string); len(pattern) == n {
		return func(l int) any { return letters[pattern[l]] }
	}
	among := func(whether func(l int) bool, yes, no string) func(l int) any {
		return func(l int) any { return map[bool]string{true: yes, false: no}[whether(l)] }
	}
	for key, first := range map[string]int{"attn_layer_indices": 0, "full_attn_idxs": 0, "full_attention_idxs": 0, "linear_attn_config.full_attn_layers": 1} {
		if list, ok := s.values[key].([]any); ok {
			return among(func(l int) bool { return slices.Contains(list, any(float64(l+first))) }, "full_attention", otherLayers)
		}
	}
	if list, _ := s.values["attn_type_list"].([]any); len(list) == n {
		return among(func(l int) bool { return list[l] == 1.0 }, "full_attention", otherLayers)
	}
	if period := get(s, "attn_layer_period", 0); period > 0 {
		offset := get(s, "attn_layer_offset", 0)
		return among(func(l int) bool { return l%period == offset }, "full_attention", otherLayers)
	}
	if s.values["full_attention_interval"] != nil {
		return among(func(l int) bool { return each("full_attention_interval", 0)(s, l) }, "full_attention", otherLayers)
	}
	pattern := s.values[s.own("sliding_window_pattern")]
	if text, _ := pattern.(string); text != "" { // such as LLLG, local and global ones
		return among(func(l int) bool { return text[l%len(text)] == 'L' }, "sliding_attention", "full_attention")
	}
	if _, every := pattern.(float64); every {
		return among(func(l int) bool { return each("sliding_window_pattern", 0)(s, l) }, "full_attention", "sliding_attention")
	}
	return nil
}

// keepsNone reports whether a layer of a type keeps no keys and values that are sized, which only a model that is not run may have.
func (s *settings) keepsNone(b *Block, kind string) bool {
	_, none := withoutKeys[kind]
	if none = none && s.cannot != nil && (kind != "linear_attention" || b.Delta == (delta{})); none {
		b.Kind, b.NoRoPE = group.None, true
	}
	return none
}

// tellNone says how many layers keep no keys and values, by their types.
func (s *settings) tellNone(count map[string]int, layers int) {
	all := 0
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		all += count[kind]
		s.support(false, "it runs "+listed(layerTypes), "%d layers of %s, which keep %s,", count[kind], kind, withoutKeys[kind])
	}
	s.need(all < layers, s.section+" layer_types", "has no layer that keeps keys and values: there is no cache of them to size")
}
