package config

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
)

// memory is how layers are divided into parts, and how their blocks are laid out.
type memory struct {
	lanes       int   // 0: each layer has memory of its own, as without groups and in the contiguous layout
	keys, vals  int64 // bytes of a block in a lane
	interleaved bool  // keys and values lie behind each other, so that a state is in one piece
	entry       int   // tokens of an entry of the prefix tree; 0: those of a block
	parts       []Part
}

// Parts are the layers of the configuration that have their blocks in common: all of them, where there are no groups.
// c is filled in; of another there are none.
func (c *Config) Parts() []Part { return c.memory.parts }

// Grouped reports whether layers do not all keep the same.
func (c *Config) Grouped() bool { return c.Model.grouped() }

// Lanes is how many layers of a part lie beside each other; keys and values are the bytes of a block in each of them,
// which of a part with a state follow each other.
func (c *Config) Lanes() (n int, keys, values int64, interleaved bool) {
	return c.memory.lanes, c.memory.keys, c.memory.vals, c.memory.interleaved
}

// class is layers of a group that are stored alike.
type class struct {
	of         int
	layers     []int
	sub        Config
	keys, vals int64 // bytes of a kernel's block in a layer
	state      int   // bytes; 0: there are keys and values
}

func (k *class) attends() bool { return k.state == 0 }

// classes divides each group into layers that are stored alike.
func (c *Config) classes() (all []class, err error) {
	for i := range c.Model.Groups {
		g := &c.Model.Groups[i]
		if g.keeps() == kind.Nothing {
			continue
		}
		var plain, skipped []int
		for _, l := range g.Layers {
			if g.attends() && slices.Contains(c.Storage.SkipLayers, l) {
				skipped = append(skipped, l)
			} else {
				plain = append(plain, l)
			}
		}
		for _, layers := range [...][]int{plain, skipped} {
			if len(layers) == 0 {
				continue
			}
			k := class{of: i, layers: layers, state: g.StateBytes}
			if g.attends() {
				k.sub = c.of(g, layers)
				if err := c.checkSeen(i, layers); err != nil {
					return nil, err
				}
				if err := k.sub.checkFilled(); err != nil {
					return nil, fmt.Errorf("Model.Groups[%d]: %w", i, err)
				}
				bytes := [...]*int64{&k.keys, &k.vals}
				for j, p := range k.sub.planes(k.sub.FormatOf(0)) {
					n, ok := k.sub.kernelBytes(p)
					if !ok {
						return nil, c.tooLarge()
					}
					*bytes[j] = n
				}
			}
			all = append(all, k)
		}
	}
	return all, nil
}

// divide divides the layers into parts and lays out their memory.
func (c *Config) divide() error {
	if !c.Model.grouped() {
		c.memory = memory{parts: []Part{{Config: *c, Of: -1, Rule: group.Rule{Block: c.BlockTokens()}}}}
		return nil
	}
	classes, err := c.classes()
	if err != nil {
		return err
	}
	if len(classes) == 0 {
		return badConfig("Model.Groups", len(c.Model.Groups), "no group keeps anything: a pool needs one that does")
	}
	if c.Memory.Layout == Contiguous {
		return c.apart(classes)
	}
	m := memory{lanes: lanes(classes), keys: 1, vals: 1, entry: c.Memory.BlockSize}
	if err := m.size(c, classes); err != nil {
		return err
	}
	for _, k := range classes {
		for at := 0; at < len(k.layers); at += m.lanes {
			m.parts = append(m.parts, m.part(c, k, k.layers[at:min(at+m.lanes, len(k.layers))]))
		}
	}
	for i := range m.parts {
		if p := &m.parts[i]; p.attends() {
			m.entry = m.entry / gcd(m.entry, p.BlockTokens()) * p.BlockTokens()
		}
	}
	for i := range m.parts {
		p := &m.parts[i]
		if !p.attends() {
			p.Rule.Block = m.entry
			continue
		}
		if p.Storage.Residual > 0 && p.Stride() > 1 {
			return badConfig("Storage.Residual", p.Storage.Residual, fmt.Sprintf("does not go with blocks of several "+
				"blocks of a kernel, as those of Model.Groups[%d] have to be here for blocks of all groups to take the "+
				"same memory", p.Of))
		}
		if err := p.checkPieces(); err != nil {
			return err
		}
	}
	c.memory = m
	return nil
}

// apart is divide in the contiguous layout: a window or a chunk is a mask there, and each part has its own blocks.
func (c *Config) apart(classes []class) error {
	m := memory{entry: c.Memory.Capacity}
	for _, k := range classes {
		if g := &c.Model.Groups[k.of]; !g.attends() {
			return backend.ErrConfig{
				Name: fmt.Sprintf("Model.Groups[%d].Kind", k.of), Value: g.Kind.String(), Why: "needs the paged layout"}
		}
		m.parts = append(m.parts, Part{Config: k.sub, Of: k.of, Layers: k.layers, Rule: group.Rule{Block: c.Memory.Capacity}})
	}
	c.memory = m
	return nil
}

// settleParts gives the parts what was decided after they were. Their sizes are checked before all layers are listed.
func (c *Config) settleParts() error {
	for i := range c.memory.parts {
		p := &c.memory.parts[i]
		p.Memory.Blocks, p.resolved, p.sources[setBlocks] = c.Memory.Blocks, true, c.sources[setBlocks]
	}
	if _, err := c.bytes(); err != nil {
		return err
	}
	if all := &c.memory.parts[0]; all.Layers == nil {
		for l := range c.Model.Layers {
			all.Layers = append(all.Layers, l)
		}
	}
	return nil
}
