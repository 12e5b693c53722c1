package config

import "github.com/ferrumkv/ferrumkv/kvcache/group"

// GroupSize is what the blocks of a group are like.
type GroupSize struct {
	Kind   group.Kind `json:"kind"`
	Layers int        `json:"layers"`
	// Parts is how many lists of blocks a sequence has in the group: each of so many layers as lie beside each other.
	Parts int `json:"parts"`
	// BlockTokens is the tokens of a block; 0: a sequence has one, with its state.
	BlockTokens int `json:"block_tokens"`
	// Blocks is what a sequence of Memory.Capacity tokens has in all parts.
	Blocks int `json:"blocks"`
	// Unused is the share of the blocks' memory that has no layer, or is left of a state.
	Unused float64 `json:"unused"`
}

// GroupSizes are those of Model.Groups that keep something; nil without groups.
func (c Config) GroupSizes() ([]GroupSize, error) {
	c, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	var all []GroupSize
	m := &c.memory
	for of := range c.Model.Groups {
		g, used := GroupSize{Kind: c.Model.Groups[of].Kind}, int64(0)
		for i := range m.parts {
			p := &m.parts[i]
			if p.Of != of {
				continue
			}
			g.Layers, g.Parts, g.Blocks = g.Layers+len(p.Layers), g.Parts+1, g.Blocks+p.Rule.Need(c.Memory.Capacity)
			if p.attends() {
				g.BlockTokens = p.BlockTokens()
				used += int64(len(p.Layers)) * (m.keys + m.vals)
			} else {
				used += int64(len(p.Layers)) * int64(p.State)
			}
		}
		if g.Parts == 0 { // it keeps nothing
			continue
		}
		if lanes := int64(g.Parts) * int64(m.lanes) * (m.keys + m.vals); lanes > 0 {
			g.Unused = 1 - float64(used)/float64(lanes)
		}
		all = append(all, g)
	}
	return all, nil
}
