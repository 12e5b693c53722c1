package config

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func withGroups(groups ...Group) Config {
	return Config{Model: Model{Layers: 4, QHeads: 4, KVHeads: 2, HeadDim: 64, Groups: groups}, Memory: Memory{Layout: Paged}}
}

// What groups cannot be is an error that names the field.
func TestGroupsAreChecked(t *testing.T) {
	full := func(layers ...int) Group { return Group{Layers: layers} }
	for name, c := range map[string]Config{
		"Model.Groups[0].Layers":      withGroups(Group{}),
		"Model.Groups[0].Layers[1]":   withGroups(full(1, 0, 2, 3)),
		"Model.Groups[1].Layers[0]":   withGroups(full(0, 1, 2, 3), full(2)),
		"Model.Groups[0].Layers[3]":   withGroups(full(0, 1, 2, 4)),
		"Model.Groups":                withGroups(full(0, 1, 3)),
		"Model.Groups[0].Window":      withGroups(Group{Kind: group.Window, Layers: []int{0, 1, 2, 3}}),
		"Model.Groups[0].Sinks":       withGroups(Group{Sinks: 1, Layers: []int{0, 1, 2, 3}}),
		"Model.Groups[0].Chunk":       withGroups(Group{Kind: group.Chunked, Layers: []int{0, 1, 2, 3}, Chunk: 24}),
		"Model.Groups[0].StateBytes":  withGroups(Group{Kind: group.State, Layers: []int{0, 1, 2, 3}}),
		"Model.Groups[0].Kind":        withGroups(Group{Kind: 9, Layers: []int{0, 1, 2, 3}}),
		"Model.Groups[0].Scale":       withGroups(Group{Scale: -1, Layers: []int{0, 1, 2, 3}}),
		"Model.Groups[0].NoRoPE":      withGroups(Group{NoRoPE: true, RoPE: &backend.RoPE{}, Layers: []int{0, 1, 2, 3}}),
		"Model.QHeads":                withGroups(full(0, 1, 2), Group{Layers: []int{3}, KVHeads: 3}),
		"Model.Groups[1]":             withGroups(full(0, 1, 2), Group{Layers: []int{3}, V: backend.Int8}),
		"Storage.V":                   withGroups(Group{Layers: []int{0, 1, 2}, VHeadDim: 32}, Group{Kind: group.State, Layers: []int{3}, StateBytes: 1}),
		"Model.Groups[1].KVHeads":     withGroups(full(0, 1, 2), Group{Layers: []int{3}, KVHeads: -1}),
		"Model.Groups[0].Layers[0]":   withGroups(full(-1, 1, 2, 3)),
		"Memory.Rollback":             {Model: Model{Layers: 1, KVHeads: 1, HeadDim: 4}, Memory: Memory{Rollback: -2}},
		"Memory.RetainEvery":          {Model: Model{Layers: 1, KVHeads: 1, HeadDim: 4}, Memory: Memory{RetainEvery: -1}},
		"Memory.RetainShare":          {Model: Model{Layers: 1, KVHeads: 1, HeadDim: 4}, Memory: Memory{RetainShare: 101}},
		"Storage.Residual":            {Model: withGroups(full(0, 1, 2), Group{Kind: group.State, Layers: []int{3}, StateBytes: 1}).Model, Storage: Storage{K: backend.Int8, Residual: 16}, Memory: Memory{Layout: Paged}},
		"Model.Groups[1].Kind":        {Model: withGroups(full(0, 1, 2), Group{Kind: group.State, Layers: []int{3}, StateBytes: 64}).Model},
		"Model.Groups[0].KVHeads":     withGroups(Group{Layers: []int{0, 1, 2, 3}, KVHeads: 1 << 40}),
		"Model.Groups[0].StateBytes ": withGroups(Group{Layers: []int{0, 1, 2, 3}, StateBytes: 4}),
		"Model.Groups[0].Window ":     withGroups(Group{Layers: []int{0, 1, 2, 3}, Window: 4}),
	} {
		_, err := c.Resolve()
		var bad backend.ErrConfig
		require.ErrorAs(t, err, &bad, name)
		for len(name) > 0 && name[len(name)-1] <= ' ' { // to have a field twice
			name = name[:len(name)-1]
		}
		require.Equal(t, name, bad.Name, "%v", err)
	}
	_, err := withGroups(Group{Kind: group.None, Layers: []int{0, 1, 2, 3}}).Resolve()
	require.ErrorIs(t, err, backend.ErrConfig{Name: "Model.Groups", Value: "1", Why: "no group keeps anything: a pool needs one that does"})
}

// Whatever the groups are, they are refused, or every layer that keeps something is in one part, no part has more layers than
// there are lanes, and a block of every part takes the bytes that a lane has.
func TestPartsShareTheirMemory(t *testing.T) {
	resolved := 0
	rapid.Check(t, func(t *rapid.T) {
		layers := rapid.IntRange(1, 40).Draw(t, "layers")
		c := Config{Model: Model{Layers: layers, KVHeads: 1 << rapid.IntRange(0, 3).Draw(t, "heads"), HeadDim: 16 * rapid.IntRange(1, 8).Draw(t, "dim")}, Memory: Memory{Layout: Paged, MaxSeqs: 1, Capacity: 1000}}
		c.Storage.K = rapid.SampledFrom([]backend.DType{backend.F16, backend.F32, backend.Int8, backend.Int4}).Draw(t, "K")
		groups := make([]Group, rapid.IntRange(1, 4).Draw(t, "groups"))
		for i := range groups {
			g := &groups[i]
			switch g.Kind = group.Kind(rapid.IntRange(0, int(group.None)).Draw(t, "kind")); g.Kind {
			case group.Window:
				g.Window, g.Sinks = rapid.IntRange(1, 99).Draw(t, "window"), rapid.IntRange(0, 9).Draw(t, "sinks")
			case group.Chunked:
				g.Chunk = 1 << rapid.IntRange(4, 14).Draw(t, "chunk")
			case group.State:
				g.StateBytes = rapid.IntRange(1, 1<<22).Draw(t, "state")
			}
			if g.attends() {
				g.KVHeads = rapid.SampledFrom([]int{0, 1, 2, 3, 5}).Draw(t, "own heads")
				g.HeadDim = rapid.SampledFrom([]int{0, 32, 96}).Draw(t, "own dim")
				g.K = rapid.SampledFrom([]backend.DType{backend.Invalid, backend.F16, backend.Int8}).Draw(t, "own K")
			}
		}
		for l := range layers {
			g := &groups[rapid.IntRange(0, len(groups)-1).Draw(t, "of")]
			g.Layers = append(g.Layers, l)
		}
		for _, g := range groups {
			if len(g.Layers) > 0 {
				c.Model.Groups = append(c.Model.Groups, g)
			}
		}
		c, err := c.Resolve()
		if err != nil {
			require.ErrorIs(t, err, backend.ErrConfig{})
			return
		}
		resolved++
		lanes, keys, values, interleaved := c.Lanes()
		of := map[int]bool{}
		for _, p := range c.Parts() {
			require.LessOrEqual(t, len(p.Layers), lanes)
			for _, l := range p.Layers {
				require.False(t, of[l])
				of[l] = true
			}
			if p.State > 0 {
				require.LessOrEqual(t, int64(p.State), keys+values)
				require.True(t, interleaved)
				continue
			}
			f := p.FormatOf(0)
			k, _ := f.K.Size(p.Model.KVHeads * p.BlockTokens() * p.Model.HeadDim)
			v, _ := f.V.Size(p.Model.KVHeads * p.BlockTokens() * p.Model.VHeadDim)
			require.Equal(t, [2]int64{keys, values}, [2]int64{int64(k), int64(v)})
			require.Zero(t, c.EntryTokens()%p.BlockTokens())
		}
		for _, g := range c.Model.Groups {
			for _, l := range g.Layers {
				require.Equal(t, g.Kind != group.None, of[l])
			}
		}
		again, err := c.Resolve()
		require.NoError(t, err)
		require.Equal(t, c.Parts(), again.Parts())
		bytes, err := c.Bytes()
		require.NoError(t, err)
		require.GreaterOrEqual(t, bytes, int64(c.Memory.Blocks)*int64(lanes)*(keys+values))
	})
	if !testing.Short() { // 20 histories may lack it
		require.Positive(t, resolved)
	}
}
