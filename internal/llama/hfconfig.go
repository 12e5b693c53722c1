package llama

import (
	"encoding/json"

	"github.com/ferrumkv/ferrumkv/backend"
)

// hfConfig is what config.json says of a Llama model. A pointer tells a value
// that is absent, or null, from zero.
type hfConfig struct {
	ModelType     string   `json:"model_type"`
	Dim           int      `json:"hidden_size"`
	Hidden        int      `json:"intermediate_size"`
	Layers        int      `json:"num_hidden_layers"`
	Heads         int      `json:"num_attention_heads"`
	KVHeads       *int     `json:"num_key_value_heads"`
	HeadDim       *int     `json:"head_dim"`
	Vocab         int      `json:"vocab_size"`
	Context       *int     `json:"max_position_embeddings"`
	Act           *string  `json:"hidden_act"`
	Eps           *float64 `json:"rms_norm_eps"`
	Theta         *float64 `json:"rope_theta"`
	Scaling       *hfRoPE  `json:"rope_scaling"`
	Rope          *hfRoPE  `json:"rope_parameters"` // newer files: theta and scaling in one place
	Tied          bool     `json:"tie_word_embeddings"`
	AttentionBias bool     `json:"attention_bias"`
	MLPBias       bool     `json:"mlp_bias"`
	BOS           *uint32  `json:"bos_token_id"`
	EOS           tokenIDs `json:"eos_token_id"`
}

type hfRoPE struct {
	Theta           *float64 `json:"rope_theta"`
	Type            string   `json:"rope_type"`
	OldType         string   `json:"type"`
	Factor          float64  `json:"factor"`
	OriginalContext int      `json:"original_max_position_embeddings"`
	BetaFast        float64  `json:"beta_fast"`
	BetaSlow        float64  `json:"beta_slow"`
	LowFreq         float64  `json:"low_freq_factor"`
	HighFreq        float64  `json:"high_freq_factor"`
	Attention       float64  `json:"attention_factor"`
	MScale          *float64 `json:"mscale"`
}

// tokenIDs is a token or a list of tokens.
type tokenIDs []uint32

func (t *tokenIDs) UnmarshalJSON(data []byte) error {
	var one *uint32
	if json.Unmarshal(data, &one) == nil {
		if one != nil {
			*t = tokenIDs{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]uint32)(t))
}

// or is *p, or def where the file has no value.
func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// parseConfig reads config.json. Absent values are those of the Llama
// configuration of Hugging Face transformers.
func parseConfig(f file) (Config, error) {
	var h hfConfig
	if err := json.Unmarshal(f.data, &h); err != nil {
		return Config{}, f.bad("configuration", "%v", err)
	}
	switch {
	case h.ModelType != "" && h.ModelType != "llama":
		return Config{}, f.unsupported("model_type %s", h.ModelType)
	case or(h.Act, "silu") != "silu":
		return Config{}, f.unsupported("hidden_act %s", *h.Act)
	case h.AttentionBias || h.MLPBias:
		return Config{}, f.unsupported("a bias in attention_bias or mlp_bias")
	}
	c := Config{
		Dim: h.Dim, Hidden: h.Hidden, Layers: h.Layers, Heads: h.Heads, KVHeads: or(h.KVHeads, h.Heads),
		Vocab: h.Vocab, Context: or(h.Context, 2048), Eps: float32(or(h.Eps, 1e-6)),
		RoPE: backend.RoPE{Theta: or(h.Theta, 10000)}, Tied: h.Tied, BOS: or(h.BOS, 1), EOS: h.EOS,
	}
	if c.EOS == nil {
		c.EOS = []uint32{2}
	}
	if c.Heads > 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	c.HeadDim = or(h.HeadDim, c.HeadDim)
	for _, rope := range []*hfRoPE{h.Rope, h.Scaling} {
		if rope == nil {
			continue
		}
		c.RoPE.Theta = or(rope.Theta, c.RoPE.Theta)
		kind := rope.Type
		if kind == "" {
			kind = rope.OldType
		}
		switch kind {
		case "", "default":
			continue
		case "linear":
			c.RoPE.Scaling = backend.LinearScaling
		case "llama3":
			c.RoPE.Scaling = backend.Llama3Scaling
		case "yarn":
			if c.RoPE.Scaling = backend.YaRNScaling; rope.MScale != nil {
				return Config{}, f.unsupported("rope_scaling with mscale")
			}
		default:
			return Config{}, f.unsupported("rope_scaling of type %s", kind)
		}
		c.RoPE.Factor, c.RoPE.OriginalContext, c.RoPE.Attention = rope.Factor, rope.OriginalContext, rope.Attention
		c.RoPE.BetaFast, c.RoPE.BetaSlow = rope.BetaFast, rope.BetaSlow
		c.RoPE.LowFreq, c.RoPE.HighFreq = rope.LowFreq, rope.HighFreq
		if c.RoPE.OriginalContext == 0 {
			c.RoPE.OriginalContext = c.Context
		}
	}
	return c, c.check(f)
}
