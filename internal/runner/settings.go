package runner

import (
	"encoding/json"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// settings are what a file says of its model: config.json, or the metadata of a
// GGUF file. Values are as encoding/json makes them: float64, string, bool, []any
// and map[string]any, and nil for one that is absent.
type settings struct {
	*reader
	section string            // what an error calls the place that they stand in
	values  map[string]any    // by the file's own names
	names   map[string]string // the file's names of settings of config.json; absent: the same
}

func (s *settings) lookup(key string) (field string, value any) {
	if name, other := s.names[key]; other {
		key = name
	}
	return s.section + " " + key, s.values[key]
}

// get is a setting of type T; without a default, it must be there.
func get[T any](s *settings, key string, def ...T) (v T) {
	field, value := s.lookup(key)
	if value == nil && len(def) > 0 {
		return def[0]
	}
	v, ok := value.(T)
	if value == nil {
		s.fail(field, "is missing")
	} else if !ok {
		s.fail(field, "has type %T, need %T", value, v)
	}
	return v
}

// integer is v, which must be one of 32 bits.
func (s *settings) integer(field string, v any) int {
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		s.fail(field, "is %v, need an integer of 32 bits", v)
	}
	return int(f)
}

func (s *settings) int(key string, def ...int) int {
	field, value := s.lookup(key)
	if value == nil && len(def) > 0 {
		return def[0]
	}
	return s.integer(field, get[any](s, key))
}

// only refuses a setting that the runner has no other value for.
func only[T comparable](s *settings, key string, value T) {
	if have := get(s, key, value); have != value {
		s.keep(s.unsupported("%s %v", key, have))
	}
}

// scalings are the types of rope_scaling.
var scalings = map[string]backend.RoPEScaling{
	"": backend.NoScaling, "none": backend.NoScaling, "default": backend.NoScaling,
	"linear": backend.LinearScaling, "llama3": backend.Llama3Scaling, "yarn": backend.YaRNScaling,
}

// config is the shape of the model. Absent values are those of the Llama
// configuration of Hugging Face transformers. The settings of rotary embedding
// have the prefix rope.
func (s *settings) config(rope string) Config {
	only(s, "model_type", "llama")
	only(s, "hidden_act", "silu")
	only(s, "attention_bias", false)
	only(s, "mlp_bias", false)
	only(s, rope+"mscale", 0.0)
	c := Config{
		Dim: s.int("hidden_size"), Hidden: s.int("intermediate_size"), Layers: s.int("num_hidden_layers"),
		Heads: s.int("num_attention_heads"), Vocab: s.int("vocab_size"), Context: s.int("max_position_embeddings", 2048),
		Eps: float32(get(s, "rms_norm_eps", 1e-6)), Tied: get(s, "tie_word_embeddings", false),
		BOS: uint32(s.int("bos_token_id", 1)),
	}
	c.KVHeads = s.int("num_key_value_heads", c.Heads)
	c.HeadDim = s.int("head_dim", c.Dim/max(c.Heads, 1))
	field, eos := s.lookup("eos_token_id")
	tokens, several := eos.([]any)
	if !several {
		tokens = []any{get[any](s, "eos_token_id", 2.0)}
	}
	for _, token := range tokens {
		c.EOS = append(c.EOS, uint32(s.integer(field, token)))
	}
	c.RoPE.Theta = get(s, rope+"rope_theta", get(s, "rope_theta", 10000.0))
	kind := get(s, rope+"rope_type", get(s, rope+"type", ""))
	scaling, known := scalings[kind]
	if !known {
		s.keep(s.unsupported("rope_scaling of type %s", kind))
	}
	if scaling != backend.NoScaling {
		number := func(key string) float64 { return get(s, rope+key, 0.0) }
		c.RoPE.Scaling, c.RoPE.Factor, c.RoPE.AttentionFactor = scaling, number("factor"), number("attention_factor")
		c.RoPE.BetaFast, c.RoPE.BetaSlow = number("beta_fast"), number("beta_slow")
		c.RoPE.LowFreqFactor, c.RoPE.HighFreqFactor = number("low_freq_factor"), number("high_freq_factor")
		c.RoPE.OriginalContext = s.int(rope+"original_max_position_embeddings", c.Context)
	}
	return c
}

// parseConfig reads config.json.
func parseConfig(f file) (Config, error) {
	s := &settings{reader: &reader{file: f}, section: "configuration"}
	if err := json.Unmarshal(f.data, &s.values); err != nil {
		return Config{}, f.bad("configuration", "%v", err)
	}
	rope := "rope_scaling"
	if s.values["rope_parameters"] != nil { // newer files: theta and scaling in one place
		rope = "rope_parameters"
	}
	for key, value := range get(s, rope, map[string]any{}) {
		s.values[rope+"."+key] = value
	}
	c := s.config(rope + ".")
	s.keep(c.check(f))
	return c, s.err
}
