package config

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Alike names what the caches of layers must have in common to lie in the same place of a lane, one layer's blocks
// beside another's, with the same scales of heads.
func (p *Part) Alike(layer int) string {
	f := p.FormatOf(layer)
	of := fmt.Sprint(p.Model.KVHeads, " ", p.Model.HeadDim, " ", p.Model.VHeadDim, " ", f.K, " ", f.V, " ", p.each, " ", p.Model.Act, " ", p.Model.Latent)
	for _, s := range [...]struct {
		dt   backend.DType
		list []float32
	}{{f.K, p.KeyScales(layer)}, {f.V, p.ValueScales(layer)}} {
		if s.dt.HeadFactors() {
			of += fmt.Sprint(" ", s.list)
		}
	}
	return of
}

// partCosts is costs with groups.
func (c *Config) partCosts() (fixed, perBlock int64, err error) {
	m := c.memory
	perBlock = int64(m.lanes) * (m.keys + m.vals)
	if perBlock > math.MaxInt32 {
		return 0, 0, c.tooLarge()
	}
	type place struct {
		lane int
		of   string
	}
	seen := map[place]bool{}
	for i := range m.parts {
		p := &m.parts[i]
		if !p.attends() {
			continue
		}
		once, own, err := p.Config.costs()
		if err != nil {
			return 0, 0, err
		}
		fixed += once
		if m.lanes == 0 {
			perBlock += own
			continue
		}
		for lane := range p.Layers {
			if at := (place{lane, p.Alike(lane)}); !seen[at] {
				seen[at] = true
				perBlock += p.besides(lane)
			}
		}
	}
	return fixed, perBlock, nil
}

// besides is the bytes that a block of a layer takes besides keys and values: scales and scores.
func (p *Part) besides(layer int) (n int64) {
	f := p.FormatOf(layer)
	for _, plane := range p.planes(f) {
		_, words, _ := plane.dt.Scales(1, p.Model.KVHeads, p.KernelTokens(), plane.dim)
		n += 4 * int64(words-plane.dt.HeadWords(p.Model.KVHeads)) * int64(p.Stride())
	}
	if p.Attention.Scores {
		n += 4 * int64(p.Model.KVHeads) * int64(p.KernelTokens()) * int64(p.Stride())
	}
	return n
}

// partBytesPerToken is the bytes that a long sequence takes for one more token.
func (c *Config) partBytesPerToken() (n int64) {
	_, perBlock, _ := c.costs() // as it did when the configuration was checked
	for i := range c.memory.parts {
		if p := &c.memory.parts[i]; p.keepsAll() {
			n += perBlock / int64(p.BlockTokens())
		}
	}
	return n
}

// largestParts are the bytes of a block in the buffers that may be the largest.
func (c *Config) largestParts() (all []int64) {
	m := c.memory
	if m.interleaved {
		return []int64{m.keys + m.vals}
	}
	if m.lanes > 0 {
		return []int64{max(m.keys, m.vals)}
	}
	for i := range m.parts {
		p := &m.parts[i]
		for _, plane := range p.largest() {
			n, ok := backend.Mul(p.Model.KVHeads, p.BlockTokens(), plane.dim)
			if bytes, sized := plane.dt.Size(n); ok && sized {
				all = append(all, bytes)
			}
		}
	}
	return all
}

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
	if err != nil || c.memory == nil {
		return nil, err
	}
	var all []GroupSize
	at, m := map[int]int{}, c.memory
	used := map[int]int64{}
	for i := range m.parts {
		p := &m.parts[i]
		n, known := at[p.Of]
		if !known {
			n = len(all)
			at[p.Of], all = n, append(all, GroupSize{Kind: c.Model.Groups[p.Of].Kind})
		}
		g := &all[n]
		g.Layers, g.Parts, g.Blocks = g.Layers+len(p.Layers), g.Parts+1, g.Blocks+p.Rule.Need(c.Memory.Capacity)
		if g.BlockTokens = p.BlockTokens(); !p.attends() {
			g.BlockTokens = 0
			used[n] += int64(len(p.Layers)) * int64(p.State)
		} else {
			used[n] += int64(len(p.Layers)) * (m.keys + m.vals)
		}
		if lanes := int64(g.Parts) * int64(m.lanes) * (m.keys + m.vals); lanes > 0 {
			g.Unused = 1 - float64(used[n])/float64(lanes)
		}
	}
	return all, nil
}
