package config

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
)

// checkSeen checks the masks of a group's layers against the group.
func (c *Config) checkSeen(of int, layers []int) error {
	g := &c.Model.Groups[of]
	if g.keeps() != kind.Last {
		return nil
	}
	for _, l := range layers {
		mask, i := c.Model.MaskOf(l), min(l, len(c.Model.Masks)-1)
		for _, f := range [...]struct {
			name string
			v    int
		}{{"Window", mask.Window}, {"SinkTokens", mask.SinkTokens}, {"Chunk", mask.Chunk}} {
			if f.v > 0 {
				return badConfig(fmt.Sprintf("Model.Masks[%d].%s", i, f.name), f.v, fmt.Sprintf("layer %d is in "+
					"Model.Groups[%d], of kind %v, which sets what its queries see (Window, Sinks, Chunk); leave it out of the mask, or put the "+
					"layer into a group of kind full, where masks hide and nothing is given back", l, of, g.Kind))
			}
		}
		if g.Sinks > 0 && c.Memory.Layout == Paged && slopes(mask.ALiBi) != nil {
			return badConfig(fmt.Sprintf("Model.Groups[%d].Sinks", of), g.Sinks, fmt.Sprintf("do not go with "+
				"Model.Masks[%d].ALiBi in the paged layout: once the group has given blocks back, the distance to its sinks is "+
				"not known; put layer %d into a group of kind full and set Window and SinkTokens in its mask, which hides "+
				"the same and keeps all, or choose the contiguous layout", i, l))
		}
	}
	return nil
}
