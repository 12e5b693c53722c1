package config

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Mask says which keys the queries of a layer see and how their logits are changed;
// see backend.Mask for the exact semantics. The zero value is causal. A value that is not
// finite is a backend.ErrConfig.
type Mask struct {
	// Window > 0 is how many tokens a query sees, its own included: the sliding_window of
	// Hugging Face and vLLM, and 1 more than the left window of FlashAttention, which does
	// not count the query's own token. It is at most 1<<31 − 1, as the numbers below are; 0: all. Layers of a group of kind window
	// or chunked have no Window, SinkTokens or Chunk here: their group sets them.
	Window int `json:"window,omitzero"`
	// SinkTokens is, with Window, the first tokens that every query sees, too. Without one queries see them anyway: then it is
	// 0 in a model that is NonCausal, and means nothing in others.
	SinkTokens int `json:"sink_tokens,omitzero"`
	// Chunk > 0 cuts the sequence into chunks of so many tokens: a query sees those of its own one only. Without a Window; for
	// devices with backend.Caps.Chunk. A group of kind chunked gives the memory of earlier chunks back, and needs no such device.
	Chunk   int       `json:"chunk,omitzero"`
	SoftCap float32   `json:"soft_cap,omitzero"` // > 0: logit = SoftCap * tanh(logit/SoftCap)
	ALiBi   []float32 `json:"alibi,omitempty"`   // [QHeads] slopes, or empty
	// SinkLogits is [QHeads], or empty: a logit for each head that takes part in the softmax and
	// has no value. For a head without one use a logit without weight, such as −1e30.
	SinkLogits []float32 `json:"sink_logits,omitempty"`
}

// MaskOf is the mask of a layer.
func (m *Model) MaskOf(layer int) Mask {
	switch len(m.Masks) {
	case 0:
		return Mask{}
	case 1:
		return m.Masks[0]
	}
	if layer < 0 || layer >= len(m.Masks) {
		return Mask{}
	}
	return m.Masks[layer]
}

// checkMasks checks what devices read from buffers and do not check.
func (m *Model) checkMasks() error {
	for i, mask := range m.Masks {
		name := fmt.Sprintf("Model.Masks[%d]", i)
		if err := checkRanges(name, []bounded{
			{"Window", mask.Window, 0}, {"SinkTokens", mask.SinkTokens, 0}, {"Chunk", mask.Chunk, 0},
		}); err != nil {
			return err
		}
		switch {
		case mask.Chunk > 0 && (mask.Window > 0 || mask.SinkTokens > 0):
			return badConfig(name+".Chunk", mask.Chunk, "does not go with Window or SinkTokens")
		case mask.SinkTokens > 0 && mask.Window == 0 && m.NonCausal:
			return badConfig(name+".SinkTokens", mask.SinkTokens, "needs a Window in a model that is NonCausal: without "+
				"one every query sees the first tokens")
		case !(mask.SoftCap >= 0) || math.IsInf(float64(mask.SoftCap), 0):
			return backend.ErrConfig{Name: name + ".SoftCap", Value: fmt.Sprint(mask.SoftCap), Why: "must be finite and " +
				"not negative"}
		}
		for _, f := range [...]struct {
			name   string
			values []float32
			none   string // what to give instead of minus infinity
		}{{"ALiBi", mask.ALiBi, ""}, {"SinkLogits", mask.SinkLogits, "; for a head without a sink a low one will do, " +
			"such as -1e30"}} {
			if n := len(f.values); n != 0 && n != m.QHeads {
				return badConfig(name+"."+f.name, n, fmt.Sprintf("need one value for each of %d query heads", m.QHeads))
			}
			for h, v := range f.values {
				if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
					return backend.ErrConfig{Name: fmt.Sprintf("%s.%s[%d]", name, f.name, h), Value: fmt.Sprint(v), Why: "must be finite" + f.none}
				}
			}
		}
	}
	return nil
}

func (m *Mask) content(t *keytext.Text) {
	t.Line("window", keytext.Set(m.Window > 0, keytext.Number(m.Window)))
	t.Line("sink-tokens", keytext.Set(m.Window > 0, keytext.Number(m.SinkTokens)))
	t.Line("soft-cap", keytext.Set(m.SoftCap > 0, keytext.Real(float64(m.SoftCap))))
	t.Line("alibi", keytext.Reals(slopes(m.ALiBi)))
	t.Line("sink-logits", keytext.Reals(unsigned(m.SinkLogits)))
}

// slopes are those of ALiBi, or none where all of them are 0.
func slopes(list []float32) []float32 {
	for _, v := range list {
		if v != 0 {
			return unsigned(list)
		}
	}
	return nil
}

// unsigned is a list whose zeros have no sign, which makes no difference to a score.
func unsigned(list []float32) []float32 {
	list = slices.Clone(list)
	for i, v := range list {
		if v == 0 {
			list[i] = 0
		}
	}
	return list
}
