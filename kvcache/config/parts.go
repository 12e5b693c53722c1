package config

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Part is layers of one group that have their blocks in common: layer i of the part lies in lane i of the pool's memory,
// where the blocks of all parts take as many bytes.
type Part struct {
	Config     // of these layers alone; of a state part only Memory counts
	Of     int // Model.Groups
	Rule   group.Rule
	Layers []int // of the model
	State  int   // bytes of a state in a layer; 0: keys and values
}

func (p *Part) attends() bool { return p.State == 0 }

// memory is how the blocks of a pool with groups are laid out.
type memory struct {
	lanes       int   // 0: every part has memory of its own, as in the contiguous layout
	keys, vals  int64 // bytes of a block in a lane
	interleaved bool  // keys and values lie behind each other, so that a state is in one piece
	entry       int   // tokens of an entry of the prefix tree
	parts       []Part
}

// Parts are the layers of the configuration that have their blocks in common: all of them, where there are no groups.
// c is filled in; of another there are none.
func (c *Config) Parts() []Part {
	if c.Model.Layers < 1 || c.Model.Layers > maxSetting {
		return nil
	}
	if c.memory == nil {
		all := make([]int, c.Model.Layers)
		for l := range all {
			all[l] = l
		}
		return []Part{{Config: *c, Layers: all, Rule: group.Rule{Block: c.BlockTokens()}}}
	}
	return c.memory.parts
}

// Grouped reports whether layers do not all keep the same. c is filled in.
func (c *Config) Grouped() bool { return c.memory != nil }

// Lanes is how many layers of a part lie beside each other; keys and values are the bytes of a block in each of them,
// which of a part with a state follow each other.
func (c *Config) Lanes() (n int, keys, values int64, interleaved bool) {
	if c.memory == nil {
		return 0, 0, 0, false
	}
	return c.memory.lanes, c.memory.keys, c.memory.vals, c.memory.interleaved
}

// EntryTokens is the tokens of an entry of the prefix tree.
func (c *Config) EntryTokens() int {
	if c.memory == nil {
		return c.BlockTokens()
	}
	return c.memory.entry
}

// divide lays out the memory of a configuration with groups.
func (c *Config) divide() error {
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
	m := &memory{lanes: lanes(classes), keys: 1, vals: 1, entry: c.Memory.BlockSize}
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
	m := &memory{entry: c.Memory.Capacity}
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

// settleParts gives the parts what was decided after they were.
func (c *Config) settleParts() {
	for i := range c.memory.parts {
		c.memory.parts[i].Memory.Blocks, c.memory.parts[i].resolved = c.Memory.Blocks, true
	}
}

// blocksWanted is the blocks of MaxSeqs sequences of full capacity, and of one long step.
func (c *Config) blocksWanted() int {
	n := 0
	for i := range c.memory.parts {
		p := &c.memory.parts[i]
		r := &p.Rule
		all, each := ceilDiv(c.Memory.Capacity, r.Block), r.Need(c.Memory.Capacity)
		if !p.attends() { // it is copied before it is written
			all, each = 1, 2
		}
		more, ok := backend.Mul(c.Memory.MaxSeqs, each)
		if n += more + all - r.Need(c.Memory.Capacity); !ok || n > maxSetting {
			return math.MaxInt
		}
	}
	return n
}
