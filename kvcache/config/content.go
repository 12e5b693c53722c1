package config

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Content is a text with everything besides tokens that keys and values depend on. Its hash is
// part of every block key. It has a line for each field, as docs/keys.md lists them: if two pools
// cannot share blocks their texts differ, and the lines show in what. The layout, the size of
// blocks and of the pool, policies and the device are not in it.
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
	t.Line("numerics", keytext.Number(backend.NumericsVersion))
	t.Line("model", keytext.Bytes(c.Model.Digest))
	t.Line("layers", keytext.Number(c.Model.Layers))
	var same keytext.Text
	for l := range c.Model.Layers {
		if layer := c.layerText(l); !bytes.Equal(layer, same) {
			t.Line("layer", keytext.Number(l))
			t, same = append(t, layer...), layer
		}
	}
	return t
}

// layerText is how a layer computes, sees and stores: each decides what the layers above store, too. What a group is of that its
// layers' masks do not say stands at the end.
func (c *Config) layerText(l int) (t keytext.Text) {
	for i := range c.memory.parts {
		p := &c.memory.parts[i]
		if at, in := slices.BinarySearch(p.Layers, l); in && p.attends() {
			t = p.layerText(at)
		}
	}
	for i := range c.Model.Groups {
		if g := &c.Model.Groups[i]; slices.Contains(g.Layers, l) {
			g.content(&t)
		}
	}
	return t
}

// layerText is that of a layer of a part with keys and values. A setting that does nothing in a layer is written as if it were not set.
func (p *Part) layerText(l int) (t keytext.Text) {
	f := p.FormatOf(l)
	p.Model.content(&t, l)
	p.Attention.content(&t, f.K)
	p.storageContent(&t, f, l)
	if chunk := p.Model.MaskOf(l).Chunk; chunk > 0 {
		t.Line("chunk", keytext.Number(chunk))
	}
	if p.Model.NonCausal {
		t.Line("non-causal", keytext.Flag(true))
	}
	if r := p.Model.RoPE; r != nil && r.Scaling == backend.YaRNScaling && r.NoTruncate {
		t.Line("rope-truncate", keytext.Flag(false))
	}
	return t
}

func (c *Config) storageContent(t *keytext.Text, f backend.Format, l int) {
	s := &c.Storage
	t.Line("keys", formatText(f.K))
	t.Line("key-scales", c.scalesText(f.K, s.KScales, l))
	t.Line("hadamard", keytext.Flag(c.HadamardOf(l)))
	t.Line("values", formatText(f.V))
	valueScales := keytext.Absent // of values that are parts of the keys
	if !c.Model.Latent {
		valueScales = c.scalesText(f.V, s.VScales, l)
	}
	t.Line("value-scales", valueScales)
	t.Line("saturate", keytext.Flag(s.Saturate && (f.K.Quantized() || f.V.Quantized())))
	t.Line("residual", keytext.Number(s.Residual))
	if c.Model.Latent {
		t.Line("latent", keytext.Flag(true))
	}
}

// scalesText is the scales of a layer's heads where those are the configuration's.
func (c Config) scalesText(dt backend.DType, list []float32, layer int) string {
	return keytext.Set(dt.HeadFactors(), keytext.Reals(c.headScales(list, layer)))
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
