package runner

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// cached is what a cache holds of the model: all layers alike, or groups of those that see and store alike.
func (c *Config) cached(sinks func(layer int) []float32) kvcache.Model {
	b := c.block(0)
	m := kvcache.Model{Layers: c.Layers, QHeads: b.Heads, KVHeads: b.KVHeads, HeadDim: b.HeadDim, VHeadDim: b.valueDim(), Latent: b.Latent != (latent{}), Act: backend.F32, Scale: b.Scale}
	for l := range c.Layers {
		b := c.block(l)
		mask := kvcache.Mask{SoftCap: b.SoftCap}
		if b.Sinks {
			mask.SinkLogits = sinks(l)
		}
		if b.SoftCap > 0 || mask.SinkLogits != nil || m.Masks != nil {
			m.Masks = append(m.Masks, make([]kvcache.Mask, l-len(m.Masks))...)
			m.Masks = append(m.Masks, mask)
		}
	}
	if c.alike() {
		if !b.NoRoPE {
			m.RoPE = &b.RoPE
		}
		return m
	}
	at := map[string]int{}
	for l := range c.Layers {
		g := c.block(l).group()
		key := fmt.Sprintf("%+v %+v", g, c.block(l).RoPE)
		n, known := at[key]
		if !known {
			n = len(m.Groups)
			if at[key] = n; !g.NoRoPE {
				g.RoPE = &c.block(l).RoPE
			}
			m.Groups = append(m.Groups, g)
		}
		m.Groups[n].Layers = append(m.Groups[n].Layers, l)
	}
	return m
}

// alike reports whether all layers see everything and store the same: such a cache needs no groups.
func (c *Config) alike() bool {
	first := c.block(0)
	for l := range max(len(c.Blocks), 1) {
		b := c.block(l)
		one, other := b.group(), first.group()
		if b.Kind != group.Full || fmt.Sprintf("%+v", one) != fmt.Sprintf("%+v", other) || b.RoPE != first.RoPE {
			return false
		}
	}
	return true
}

// group is the group of layers like this one, without their numbers and rotary embedding.
func (b *Block) group() config.Group {
	if b.Kind == group.State {
		return config.Group{Kind: b.Kind, StateBytes: 4 * b.Delta.state(), NoRoPE: true}
	}
	g := config.Group{Kind: b.Kind, QHeads: b.Heads, KVHeads: b.KVHeads, HeadDim: b.HeadDim, VHeadDim: b.valueDim(), Latent: b.Latent != (latent{}), Scale: b.Scale, NoRoPE: b.NoRoPE}
	switch b.Kind {
	case group.Window:
		g.Window = b.Span
	case group.Chunked:
		g.Chunk = b.Span
	}
	return g
}

// Complete fills what the model says into the configuration of its cache. sinks are a layer's sink logits [heads], which
// are weights. The capacity is at most the model's context, and that where it would become more. Where nobody chose a
// layout it is one that can hold the model's layers.
func (c *Config) Complete(cfg kvcache.Config, sinks func(layer int) []float32) (kvcache.Config, error) {
	own := c.cached(sinks)
	if c.alike() && own.Masks == nil { // the caller may have layers see less
		own.Groups, own.Masks = cfg.Model.Groups, cfg.Model.Masks
	}
	cfg.Model = own
	if cfg.Memory.Capacity > c.Context {
		return cfg, kvcache.ErrConfig{Name: "Capacity", Value: fmt.Sprint(cfg.Memory.Capacity), Why: fmt.Sprintf("the model was made for %d tokens", c.Context)}
	}
	// Of one head, so that nothing overflows before the capacity is lowered, and of a type that goes with any.
	resolved, err := kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 1},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: cfg.Memory.Layout, Capacity: cfg.Memory.Capacity, MaxSeqs: 1},
	}.Resolve()
	if err != nil {
		return cfg, err
	}
	cfg.Memory.Capacity = min(resolved.Memory.Capacity, c.Context)
	paged := slices.ContainsFunc(own.Groups, func(g config.Group) bool { return g.Kind == group.State })
	if layout := resolved.Settings()[0]; paged && layout.Source == config.FromDefault {
		cfg.Memory.Layout = kvcache.Paged
	}
	return cfg, nil
}
