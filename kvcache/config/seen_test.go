package config

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// seen is a configuration of two layers, the first of them in a group.
func seen(g Group, masks ...Mask) Config {
	g.Layers = []int{0}
	return Config{Model: Model{Layers: 2, QHeads: 2, KVHeads: 2, HeadDim: 64, Groups: []Group{g, {Layers: []int{1}}}, Masks: masks},
		Memory: Memory{Layout: Paged, BlockSize: 4, Capacity: 256}}
}

// What layers of a group that gives blocks back see is set by the group, not by their masks as well, which would count only
// what is left.
func TestGroupsSayWhatIsSeen(t *testing.T) {
	window, chunk := Group{Kind: group.Window, Window: 8}, Group{Kind: group.Chunked, Chunk: 8}
	sinks, slopes := Group{Kind: group.Window, Window: 8, Sinks: 2}, []float32{0.5, 0}
	for name, c := range map[string]struct {
		cfg     Config
		refused string
	}{
		"a window twice":             {seen(window, Mask{Window: 8}, Mask{}), "Model.Masks[0].Window"},
		"one mask for all":           {seen(window, Mask{Window: 4}), "Model.Masks[0].Window"},
		"sinks of each chunk":        {seen(chunk, Mask{Window: 4, SinkTokens: 2}, Mask{}), "Model.Masks[0].Window"},
		"chunks in chunks":           {seen(chunk, Mask{Chunk: 4}, Mask{}), "Model.Masks[0].Chunk"},
		"chunks in a window":         {seen(window, Mask{Chunk: 4}, Mask{}), "Model.Masks[0].Chunk"},
		"the other layer's":          {seen(chunk, Mask{}, Mask{Window: 4, SinkTokens: 2}), ""},
		"a full group's":             {seen(Group{}, Mask{Window: 4, SinkTokens: 2, ALiBi: slopes}, Mask{}), ""},
		"sinks beside the group's":   {seen(window, Mask{SinkTokens: 2}, Mask{}), "Model.Masks[0].SinkTokens"},
		"sinks of chunks alone":      {seen(chunk, Mask{SinkTokens: 2}, Mask{}), "Model.Masks[0].SinkTokens"},
		"ALiBi and sinks":            {seen(sinks, Mask{ALiBi: slopes}, Mask{}), "Model.Groups[0].Sinks"},
		"ALiBi of all and sinks":     {seen(sinks, Mask{ALiBi: slopes}), "Model.Groups[0].Sinks"},
		"ALiBi of another layer":     {seen(sinks, Mask{}, Mask{ALiBi: slopes}), ""},
		"ALiBi without slopes":       {seen(sinks, Mask{ALiBi: []float32{0, 0}}), ""},
		"ALiBi and a window":         {seen(window, Mask{ALiBi: slopes}), ""},
		"ALiBi and chunks":           {seen(chunk, Mask{ALiBi: slopes}), ""},
		"a soft cap and sink logits": {seen(sinks, Mask{SoftCap: 2, SinkLogits: slopes}), ""},
	} {
		_, err := c.cfg.Resolve()
		if c.refused == "" {
			require.NoError(t, err, name)
			continue
		}
		var refused backend.ErrConfig
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, c.refused, refused.Name, err)
	}
	contiguous := seen(sinks, Mask{ALiBi: slopes})
	contiguous.Memory.Layout, contiguous.Memory.BlockSize = Contiguous, 0
	_, err := contiguous.Resolve()
	require.NoError(t, err, "there a group is a mask")
}

// Sinks are read in few bits once the residual has left them: the group keeps what says where that begins.
func TestSinksKeepTheResidual(t *testing.T) {
	kept := func(g Group, residual int) int {
		c := seen(g)
		c.Storage.K, c.Storage.Residual, c.Memory.Rollback = backend.Int8, residual, -1
		all, err := c.Resolve()
		require.NoError(t, err)
		return all.Parts()[0].Rule.Need(200)
	}
	sinks := Group{Kind: group.Window, Window: 8, Sinks: 2}
	require.Equal(t, 1+2, kept(sinks, 8), "what a window reads")
	require.Equal(t, 1+10, kept(sinks, 40), "and what a residual does")
	require.Equal(t, 2, kept(Group{Kind: group.Window, Window: 8}, 40))
}
