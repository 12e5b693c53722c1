package kvcache

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Content is everything that keys and values of equal tokens depend on, in the canonical
// form whose sum is in every key: a line for each field, as docs/keys.md lists them. Pools
// that share nothing have texts that differ, and the lines say in what. The layout, the size
// of blocks and of the pool, policies and the device are not in it.
func (c Config) Content() (string, error) {
	c, err := c.Resolve()
	if err != nil {
		return "", err
	}
	return string(c.content()), nil
}

// content is Content of a configuration that is filled in.
func (c Config) content() keytext.Text {
	t := keytext.New("content")
	t.Line("numerics", keytext.Number(backend.Numerics))
	t.Line("model", keytext.Bytes(c.Model))
	t.Line("layers", keytext.Number(c.Layers))
	var same keytext.Text
	for l := range c.Layers {
		if layer := c.layerText(l); !bytes.Equal(layer, same) {
			t.Line("layer", keytext.Number(l))
			t, same = append(t, layer...), layer
		}
	}
	return t
}

// layerText is how a layer computes, sees and stores: each decides what the layers above
// store, too. A setting that does nothing in a layer is written as if it were not set.
func (c Config) layerText(l int) (t keytext.Text) {
	t.Line("activation", c.Act.String())
	t.Line("query-heads", keytext.Number(c.QHeads))
	t.Line("kv-heads", keytext.Number(c.KVHeads))
	t.Line("key-dim", keytext.Number(c.HeadDim))
	t.Line("value-dim", keytext.Number(c.VHeadDim))
	t.Line("scale", keytext.Real(float64(c.Scale)))
	c.ropeText(&t)
	m, f := c.mask(l), c.format(l)
	t.Line("window", keytext.Set(m.Window > 0, keytext.Number(m.Window)))
	t.Line("sink-tokens", keytext.Set(m.Window > 0, keytext.Number(m.SinkTokens)))
	t.Line("soft-cap", keytext.Set(m.SoftCap > 0, keytext.Real(float64(m.SoftCap))))
	t.Line("alibi", keytext.Reals(slopes(m.ALiBi)))
	t.Line("sink-logits", keytext.Reals(unsigned(m.SinkLogits)))
	t.Line("int8-query", keytext.Flag(c.Int8Query && f.K.Quantized()))
	t.Line("keys", formatText(f.K))
	t.Line("key-scales", c.scalesText(f.K, c.KScales, l))
	t.Line("hadamard", keytext.Flag(c.hadamard(l)))
	t.Line("values", formatText(f.V))
	t.Line("value-scales", c.scalesText(f.V, c.VScales, l))
	t.Line("saturate", keytext.Flag(c.Saturate && (f.K.Quantized() || f.V.Quantized())))
	t.Line("residual", keytext.Number(c.Residual))
	return t
}

// ropeText writes what of the rotary embedding decides tables and kernels. YaRN's own
// attention factor is called by its name: a logarithm may end in another bit elsewhere.
func (c Config) ropeText(t *keytext.Text) {
	if c.RoPE == nil {
		t.Line("rope", keytext.Absent)
		return
	}
	r, _ := c.RoPE.Resolve(c.HeadDim) // as it did when the configuration was checked
	yarn, llama3 := r.Scaling == backend.YaRNScaling, r.Scaling == backend.Llama3Scaling
	attention, own := keytext.Real(r.Attention), r
	own.Attention = 0
	if own, _ = own.Resolve(c.HeadDim); yarn && math.Abs(own.Attention-r.Attention) < 1e-12 {
		attention = r.Scaling.String()
	}
	t.Line("rope", r.Pairing.String())
	t.Line("rope-dims", keytext.Number(r.Dims))
	t.Line("rope-theta", keytext.Real(r.Theta))
	t.Line("rope-attention", attention)
	t.Line("rope-scaling", r.Scaling.String())
	t.Line("rope-factor", keytext.Set(r.Scaling != backend.NoScaling, keytext.Real(r.Factor)))
	t.Line("rope-original-context", keytext.Set(yarn || llama3, keytext.Number(r.OriginalContext)))
	t.Line("rope-beta-fast", keytext.Set(yarn, keytext.Real(r.BetaFast)))
	t.Line("rope-beta-slow", keytext.Set(yarn, keytext.Real(r.BetaSlow)))
	t.Line("rope-low-freq", keytext.Set(llama3, keytext.Real(r.LowFreq)))
	t.Line("rope-high-freq", keytext.Set(llama3, keytext.Real(r.HighFreq)))
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

// scalesText is the scales of a layer's heads where those are the configuration's.
func (c Config) scalesText(dt backend.DType, list []float32, layer int) string {
	return keytext.Set(dt.Coding().Scope == backend.ByHead, keytext.Reals(c.headScales(list, layer)))
}

// formatText is a storage type by name and parameters. Keys have it: no word of it changes.
func formatText(dt backend.DType) string {
	c := dt.Coding()
	text := fmt.Sprintf("%s bits=%d codes=%s", c.Name, c.Bits, c.Code)
	share := c.Scope.String()
	switch {
	case c.Scope == backend.Unscaled:
		return text
	case c.Group > 0:
		share = strconv.Itoa(c.Group)
	case c.Scope == backend.ByGroup:
		share = "row"
	}
	return text + " scale=" + c.Scale.String() + " share=" + share
}
