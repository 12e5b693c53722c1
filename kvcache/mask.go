package kvcache

import (
	"fmt"
	"math"
)

// Mask says which keys the queries of a layer see and how scores are changed;
// see backend.Mask for the exact semantics. The zero value is causal. A value that is not
// finite is an ErrConfig.
type Mask struct {
	// Window > 0 is how many tokens a query sees, its own and those before it: the
	// sliding_window of Hugging Face and vLLM, and 1 more than the left window of
	// FlashAttention, which does not count the query's own.
	Window     int
	SinkTokens int       // that it sees, too: the first ones
	SoftCap    float32   // > 0: score = SoftCap * tanh(score/SoftCap)
	ALiBi      []float32 // [QHeads] slopes, or empty
	// SinkLogits is [QHeads], or empty. A head among others that has none has a logit that
	// weighs nothing, such as −1e30.
	SinkLogits []float32
}

// mask is the mask of a layer.
func (c Config) mask(layer int) Mask {
	switch len(c.Masks) {
	case 0:
		return Mask{}
	case 1:
		return c.Masks[0]
	}
	return c.Masks[layer]
}

// checkMasks checks what devices read from buffers and do not check.
func (c Config) checkMasks() error {
	for i, m := range c.Masks {
		name := fmt.Sprintf("Masks[%d]", i)
		if m.Window < 0 || m.SinkTokens < 0 || !(m.SoftCap >= 0) || math.IsInf(float64(m.SoftCap), 0) {
			return ErrConfig{Name: name, Value: fmt.Sprint(m.Window, " ", m.SinkTokens, " ", m.SoftCap), Why: "window, sink tokens and soft-cap must be finite and not negative"}
		}
		for _, f := range [...]struct {
			name   string
			values []float32
			none   string // what to give instead of minus infinity
		}{{"ALiBi", m.ALiBi, ""}, {"SinkLogits", m.SinkLogits, "; for a head without a sink a low one will do, such as -1e30"}} {
			if n := len(f.values); n != 0 && n != c.QHeads {
				return badConfig(name+"."+f.name, n, fmt.Sprintf("need one value for each of %d query heads", c.QHeads))
			}
			for h, v := range f.values {
				if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
					return ErrConfig{Name: fmt.Sprintf("%s.%s[%d]", name, f.name, h), Value: fmt.Sprint(v), Why: "must be finite" + f.none}
				}
			}
		}
	}
	return nil
}
