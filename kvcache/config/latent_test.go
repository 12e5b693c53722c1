package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// deepSeek is a model with multi-head latent attention in the absorbed form: 61 layers, 128 query heads.
func deepSeek() Config {
	return Config{
		Model:   Model{Layers: 61, QHeads: 128, KVHeads: 1, HeadDim: 576, VHeadDim: 512, Latent: true, Scale: 0.0721688, RoPE: &backend.RoPE{Pairing: backend.Interleaved}},
		Storage: Storage{K: backend.BF16},
		Memory:  Memory{Layout: Paged, Capacity: 64, MaxSeqs: 2},
	}
}

// A token takes one plane: 1,152 bytes of bf16 in a layer where keys and values apart take 2,176.
func TestLatentBytes(t *testing.T) {
	for dt, want := range map[backend.DType][2]int64{
		backend.F32: {2304, 4352}, backend.F16: {1152, 2176}, backend.BF16: {1152, 2176},
		backend.Int8: {580, 1096}, backend.FP8E4M3: {576, 1088}, backend.Int4: {288 + 72, 288 + 72 + 256 + 64},
	} {
		for i, latent := range []bool{true, false} {
			c := deepSeek()
			c.Model.Latent, c.Storage.K = latent, dt
			n, err := c.BytesPerToken()
			require.NoError(t, err)
			require.Equal(t, 61*want[i], n, "%s, latent %v", dt, latent)
			all, err := c.Bytes()
			require.NoError(t, err)
			heads, rope := int64(0), int64(64*64*4)
			if !latent {
				rope = 64 * 576 * 4
			}
			if dt == backend.FP8E4M3 { // a scale for each head of a layer's planes
				heads = 61 * 4 * int64(1+i)
			}
			require.Equal(t, n*2*64+rope+heads, all, "%s, latent %v", dt, latent)
			require.NoError(t, c.Fits(all, backend.Caps{MaxBuffer: 1 << 40}))
			require.Error(t, c.Fits(all-1, backend.Caps{MaxBuffer: 1 << 40}))
		}
	}
	c, err := deepSeek().Resolve()
	require.NoError(t, err)
	require.Equal(t, backend.BF16, c.Storage.V)
	require.LessOrEqual(t, c.MostBuffers(), 2*61+1)
}

// What does not go with latents is an error that names the field.
func TestLatentsAreChecked(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"Model.VHeadDim":        func(c *Config) { c.Model.VHeadDim = 0 },
		"Model.VHeadDim ":       func(c *Config) { c.Model.VHeadDim = 577 },
		"Model.Scale":           func(c *Config) { c.Model.Scale = 0 },
		"Model.RoPE":            func(c *Config) { c.Model.RoPE.Dims = 66 },
		"Storage.V":             func(c *Config) { c.Storage.V = backend.F16 },
		"Storage.K":             func(c *Config) { c.Storage.K, c.Storage.Residual = backend.Int4Channel, 8 },
		"Storage.Hadamard":      func(c *Config) { c.Storage.K, c.Storage.Hadamard = backend.Int8, true },
		"Storage.VScales":       func(c *Config) { c.Storage.K, c.Storage.VScales = backend.FP8E4M3, []float32{1} },
		"Model.HeadDim":         func(c *Config) { c.Storage.K, c.Model.HeadDim, c.Model.RoPE = backend.Int4, 577, nil },
		"Model.VHeadDim  ":      func(c *Config) { c.Storage.K, c.Model.VHeadDim, c.Model.RoPE = backend.Int4, 511, nil },
		"Model.Groups[0].Scale": func(c *Config) { c.Model.Groups, c.Model.Latent, c.Model.Scale = latentGroups(), false, 0 },
		"Model.Groups[0].VHeadDim": func(c *Config) {
			c.Model.Groups, c.Model.Latent, c.Model.VHeadDim = latentGroups(), false, 0
		},
		"Model.Groups[1].Latent": func(c *Config) {
			c.Model.Groups, c.Model.Latent = latentGroups(), false
			c.Model.Groups[1].Latent = true
		},
		"Model.Groups[2].Latent": func(c *Config) {
			c.Model.Groups, c.Model.Latent = latentGroups(), false
			c.Model.Groups[1] = Group{Kind: group.State, StateBytes: 8, Layers: []int{59}}
			c.Model.Groups = append(c.Model.Groups, Group{Layers: []int{60}})
		},
	} {
		c := deepSeek()
		change(&c)
		_, err := c.Resolve()
		var bad backend.ErrConfig
		require.ErrorAs(t, err, &bad, name)
		require.Equal(t, strings.TrimRight(name, " "), bad.Name, "%v", err)
		require.NotEmpty(t, bad.Why)
	}
}

// latentGroups is one of latents and one of states.
func latentGroups() []Group {
	g := []Group{{Latent: true}, {Kind: group.State, StateBytes: 100000, Layers: []int{59, 60}}}
	for l := range 59 {
		g[0].Layers = append(g[0].Layers, l)
	}
	return g
}

// A state lies where latents do: whole blocks of them.
func TestLatentsBesideStates(t *testing.T) {
	c := deepSeek()
	c.Model.Latent, c.Model.Groups = false, latentGroups()
	c, err := c.Resolve()
	require.NoError(t, err)
	lanes, keys, values, interleaved := c.Lanes()
	require.True(t, interleaved)
	require.Zero(t, values)
	require.GreaterOrEqual(t, keys, int64(100000))
	require.Less(t, keys, int64(100000+16*1152))
	_, perBlock, err := c.costs()
	require.NoError(t, err)
	require.Equal(t, int64(lanes)*keys, perBlock)
	for _, p := range c.Parts() {
		if p.State == 0 {
			require.True(t, p.Model.Latent)
			require.Equal(t, keys, int64(p.BlockTokens())*1152)
			require.Equal(t, p.Each(), p.Stride())
		}
	}
}

// The content says that values are in the keys, and nothing else about other layers than before.
func TestLatentContent(t *testing.T) {
	with, err := deepSeek().Content()
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(with, "\nlatent yes\n"))
	require.Contains(t, with, "\nrope-dims 64\n")
	apart := deepSeek()
	apart.Model.Latent = false
	without, err := apart.Content()
	require.NoError(t, err)
	require.NotContains(t, without, "latent")
	parsed, err := Parse([]byte(`{"model": {"layers": 2, "q_heads": 16, "kv_heads": 1, "head_dim": 576, "v_head_dim": 512, "latent": true, "scale": 0.07}}`))
	require.NoError(t, err)
	require.True(t, parsed.Model.Latent)
	_, err = parsed.Resolve()
	require.NoError(t, err)
}
