package config

import (
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// of is the configuration of some layers of a group alone.
func (c *Config) of(g *Group, layers []int) Config {
	sub, m := *c, &c.Model
	s := &sub.Model
	s.Groups, s.Layers, s.Masks = nil, len(layers), nil
	s.KVHeads, s.HeadDim = orElse(g.KVHeads, m.KVHeads), orElse(g.HeadDim, m.HeadDim)
	s.QHeads, s.VHeadDim = orElse(g.QHeads, m.QHeads), orElse(g.VHeadDim, m.VHeadDim)
	if g.QHeads == 0 && c.sources[setQHeads] == FromDefault {
		s.QHeads = s.KVHeads
	}
	if g.VHeadDim == 0 && c.sources[setVHeadDim] == FromDefault {
		s.VHeadDim = s.HeadDim
	}
	s.Latent = m.Latent || g.Latent
	switch {
	case g.Scale > 0:
		s.Scale = g.Scale
	case c.sources[setScale] == FromDefault:
		s.Scale = float32(1 / math.Sqrt(float64(s.HeadDim)))
	}
	if g.RoPE != nil {
		s.RoPE = g.RoPE
	}
	if g.NoRoPE {
		s.RoPE = nil
	}
	for _, l := range layers {
		s.Masks = append(s.Masks, g.mask(m.MaskOf(l), c.Memory.Layout))
	}
	t := &sub.Storage
	if g.K != backend.Invalid {
		t.K, t.V = g.K, g.K.Coding().Values
	}
	if s.Latent {
		t.V = t.K
	}
	if g.V != backend.Invalid {
		t.V = g.V
	}
	t.SkipLayers, t.KScales, t.VScales = nil, nil, nil
	if slices.Contains(c.Storage.SkipLayers, layers[0]) || g.within(t.Residual) {
		t.K, t.V = m.Act, m.Act // or never read in fewer bits
	}
	if !t.K.Quantized() {
		t.Hadamard, t.Residual, sub.Memory.StepTokens = false, 0, 0
	}
	if t.K.HeadFactors() && len(c.Storage.KScales) > 0 {
		t.KScales = c.scalesOf(c.Storage.KScales, layers, s.KVHeads)
	}
	if t.V.HeadFactors() && len(c.Storage.VScales) > 0 && !s.Latent {
		t.VScales = c.scalesOf(c.Storage.VScales, layers, s.KVHeads)
	}
	return sub
}

// scalesOf is the scales of the heads of some layers that have so many each.
func (c *Config) scalesOf(list []float32, layers []int, heads int) (out []float32) {
	for _, l := range layers {
		of := c.headScales(list, l)
		for h := range heads {
			out = append(out, of[min(h, len(of)-1)])
		}
	}
	return out
}

func orElse(n, other int) int {
	if n > 0 {
		return n
	}
	return other
}
