package runner

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// scalings are the types of rotary embedding.
var scalings = map[string]backend.RoPEScaling{
	"": backend.NoScaling, "none": backend.NoScaling, "default": backend.NoScaling,
	"linear": backend.LinearScaling, "llama3": backend.Llama3Scaling, "yarn": backend.YaRNScaling,
}

// ropeOf is the prefix of the settings of the rotary embedding of layers of a type. Transformers 4 has theta beside
// rope_scaling, and that of local layers apart; transformers 5 has rope_parameters for both, for all layers or for each type.
func (s *settings) ropeOf(layers string) (prefix string, theta float64) {
	prefix, theta = "rope_scaling.", get(s, "rope_theta", 10000.0)
	if s.values["rope_parameters"] != nil { // theta and scaling in one place
		prefix = "rope_parameters."
	}
	if layers == "sliding_attention" && s.values["rope_local_base_freq"] != nil {
		prefix, theta = "none.", get[float64](s, "rope_local_base_freq")
	}
	if _, nested := s.values["rope_parameters."+layers].(map[string]any); nested {
		prefix = "rope_parameters." + layers + "."
	}
	return prefix, theta
}

// rope fills in the rotary embedding of a layer of a type, but for its pairing, and dims that are known.
func (s *settings) rope(b *Block, layers string, context int) {
	prefix, theta := s.ropeOf(layers)
	number := func(key string) float64 { return get(s, prefix+key, 0.0) }
	r := &b.RoPE
	r.Theta = get(s, prefix+"rope_theta", theta)
	if part := get(s, prefix+"partial_rotary_factor", get(s, "partial_rotary_factor", 1.0)); part != 1 && r.Dims == 0 {
		r.Dims = int(float64(b.HeadDim) * part)
	}
	key := "rope_type"
	if get[any](s, prefix+key, nil) == nil {
		key = "type"
	}
	kind := get(s, prefix+key, "")
	scaling, known := scalings[kind]
	s.support(known, "%s%s %s", prefix, key, kind)
	if scaling == backend.NoScaling {
		return
	}
	r.Scaling, r.Factor, r.AttentionFactor = scaling, number("factor"), number("attention_factor")
	r.BetaFast, r.BetaSlow = number("beta_fast"), number("beta_slow")
	r.LowFreqFactor, r.HighFreqFactor = number("low_freq_factor"), number("high_freq_factor")
	r.OriginalContext = get(s, prefix+"original_max_position_embeddings", context)
	if scaling == backend.YaRNScaling {
		if r.Factor == 0 && r.OriginalContext > 0 {
			r.Factor = float64(context) / float64(r.OriginalContext)
		}
		r.NoTruncate = !get(s, prefix+"truncate", true)
		if m, all := number("mscale"), number("mscale_all_dim"); m != 0 && all != 0 && r.AttentionFactor == 0 {
			r.AttentionFactor = yarnFactor(r.Factor, m) / yarnFactor(r.Factor, all)
		}
	}
}

// yarnFactor is YaRN's factor on queries and keys, of which m scales the logarithm.
func yarnFactor(factor, m float64) float64 { return 0.1*m*math.Log(max(factor, 1)) + 1 }
