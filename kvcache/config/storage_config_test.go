package config

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// What does not go together is an error that names the field.
func TestStorageConfigRejects(t *testing.T) {
	quantized := Config{
		Model:   Model{Layers: 2, QHeads: 8, KVHeads: 2, HeadDim: 64},
		Storage: Storage{K: backend.Int8},
		Memory:  Memory{Layout: Paged},
	}
	scaled := quantized
	scaled.Storage.K = backend.FP8E4M3
	kivi := quantized
	kivi.Storage.K, kivi.Storage.V, kivi.Storage.Residual = backend.Int4Channel, backend.Int4, 32
	for _, c := range []Config{quantized, scaled, kivi} {
		_, err := c.Resolve()
		require.NoError(t, err)
	}
	for _, c := range []struct {
		name   string
		base   Config
		change func(*Config)
	}{
		{"Storage.V", quantized, func(c *Config) { c.Storage.V = backend.Int4Channel }},
		{"Storage.K", quantized, func(c *Config) { c.Storage.K, c.Storage.V = backend.Int4Channel, backend.Int4 }},
		{"Model.HeadDim", quantized, func(c *Config) {
			c.Storage.K, c.Storage.V, c.Model.HeadDim, c.Model.VHeadDim = backend.Int4, backend.Int8, 7, 8
		}},
		{"Model.VHeadDim", quantized, func(c *Config) { c.Storage.V, c.Model.VHeadDim = backend.Int4G64, 9 }},
		{"Storage.Hadamard", quantized, func(c *Config) { c.Storage.K, c.Storage.V, c.Storage.Hadamard = backend.F16, backend.Int8, true }},
		{"Storage.SkipLayers[1]", quantized, func(c *Config) { c.Storage.SkipLayers = []int{0, 2} }},
		{"Storage.SkipLayers[0]", quantized, func(c *Config) { c.Storage.SkipLayers = []int{-1} }},
		{"Storage.KScales", quantized, func(c *Config) { c.Storage.KScales = []float32{1} }},
		{"Storage.VScales", quantized, func(c *Config) { c.Storage.VScales = []float32{1} }},
		{"Storage.KScales", scaled, func(c *Config) { c.Storage.KScales = make([]float32, 3) }},
		{"Storage.VScales", scaled, func(c *Config) { c.Storage.VScales = make([]float32, 8) }},
		{"Storage.KScales[1]", scaled, func(c *Config) { c.Storage.KScales = []float32{1, 0} }},
		{"Storage.VScales[0]", scaled, func(c *Config) { c.Storage.VScales = []float32{float32(math.NaN())} }},
		{"Storage.VScales[3]", scaled, func(c *Config) { c.Storage.VScales = []float32{1, 2, 3, float32(math.Inf(1))} }},
		{"Storage.KScales[0]", scaled, func(c *Config) { c.Storage.KScales = []float32{-1} }},
		{"Storage.KScales[1]", scaled, func(c *Config) { c.Storage.KScales = []float32{math.MaxFloat32 / 448, 0x1p120} }},
		{"Storage.VScales[1]", scaled, func(c *Config) {
			c.Storage.V, c.Storage.VScales = backend.FP8E5M2, []float32{math.MaxFloat32 / 57344, math.MaxFloat32 / 448}
		}},
		{"Model.Act", quantized, func(c *Config) { c.Model.Act = backend.Int4 }},
		{"Storage.Residual", kivi, func(c *Config) { c.Storage.Residual = math.MaxInt }},
		{"Memory.StepTokens", kivi, func(c *Config) { c.Memory.StepTokens = -1 }},
		{"Storage.Residual", kivi, func(c *Config) { c.Memory.Layout = Contiguous }},
		{"Storage.Residual", kivi, func(c *Config) { c.Storage.K = backend.F16 }},
		{"Storage.Residual", kivi, func(c *Config) { c.Storage.V = backend.F16 }},
	} {
		cfg := c.base
		c.change(&cfg)
		_, err := cfg.Resolve()
		var e backend.ErrConfig
		require.ErrorAs(t, err, &e, c.name)
		require.Equal(t, c.name, e.Name, err)
		require.NotEmpty(t, e.Why)
	}
}

// The bytes of a token by hand: two heads of 64 in three layers.
func TestBytesPerTokenOfQuantizedTypes(t *testing.T) {
	for dt, want := range map[backend.DType]int64{ // of a row
		backend.F16: 128, backend.Int8: 64 + 4, backend.Int8Asym: 64 + 4, backend.Int4: 32 + 2*4, backend.Int4G64: 32 + 4,
		backend.FP8E4M3: 64, backend.FP8E5M2: 64, backend.MXFP4: 32 + 4, backend.NVFP4: 32 + 4,
	} {
		cfg := Config{
			Model:   Model{Layers: 3, KVHeads: 2, HeadDim: 64, Act: backend.F32},
			Storage: Storage{K: dt},
			Memory:  Memory{Layout: Paged},
		}
		got, err := cfg.BytesPerToken()
		require.NoError(t, err)
		require.Equal(t, 3*2*2*want, got, dt)
		cfg.Attention.Scores = true
		got, err = cfg.BytesPerToken()
		require.NoError(t, err)
		require.Equal(t, 3*2*(2*want+4), got, dt)
		if dt.Quantized() {
			cfg.Storage.SkipLayers = []int{1}
			got, err = cfg.BytesPerToken()
			require.NoError(t, err)
			require.Equal(t, 2*2*(2*want+4)+2*(2*64*4+4), got, dt)
		}
	}
	kivi := Config{
		Model:   Model{Layers: 1, KVHeads: 2, HeadDim: 64},
		Storage: Storage{K: backend.Int4Channel, V: backend.Int4, Residual: 32},
		Memory:  Memory{Layout: Paged, BlockSize: 16},
	}
	got, err := kivi.BytesPerToken()
	require.NoError(t, err)
	require.EqualValues(t, 2*(32+64*4/16+32+2*4), got, "a word for each channel of 16 tokens")
}

// Parts that have memory of their own, as in the contiguous layout, have blocks of different sizes: a token's bytes are a block's, divided.
func TestBytesPerTokenOfContiguousGroups(t *testing.T) {
	cfg := Config{
		Model: Model{Layers: 3, KVHeads: 2, HeadDim: 64, Act: backend.F16, Groups: []Group{
			{Kind: group.Full, Layers: []int{0}}, {Kind: group.Window, Layers: []int{1, 2}, Window: 8, KVHeads: 1}}},
		Memory: Memory{Layout: Contiguous, Capacity: 32},
	}
	block, err := cfg.BytesPerBlock()
	require.NoError(t, err)
	got, err := cfg.BytesPerToken()
	require.NoError(t, err)
	require.EqualValues(t, 2*(2+1+1)*64*2, got)
	require.Equal(t, block, 32*got)
}

// Every field that decides what is stored gives the blocks other names, and no other
// does.
func TestFingerprintOfStorage(t *testing.T) {
	base := Config{
		Model:   Model{Layers: 2, KVHeads: 2, HeadDim: 64, Act: backend.F16},
		Storage: Storage{K: backend.FP8E4M3, V: backend.FP8E4M3},
		Memory:  Memory{Layout: Paged},
	}
	of := func(change func(*Config)) prefix.Key {
		c := base
		change(&c)
		f, err := c.Fingerprint()
		require.NoError(t, err)
		return f.Root(prefix.Scope{}).Key
	}
	plain := of(func(*Config) {})
	seen := map[prefix.Key]string{plain: "nothing"}
	for name, change := range map[string]func(*Config){
		"Storage.K":           func(c *Config) { c.Storage.K = backend.FP8E5M2 },
		"Storage.V":           func(c *Config) { c.Storage.V = backend.Int8 },
		"Storage.Hadamard":    func(c *Config) { c.Storage.Hadamard = true },
		"Storage.Saturate":    func(c *Config) { c.Storage.Saturate = true },
		"Attention.Int8Query": func(c *Config) { c.Attention.Int8Query = true },
		"the first":           func(c *Config) { c.Storage.SkipLayers = []int{0} },
		"the last":            func(c *Config) { c.Storage.SkipLayers = []int{1} },
		"both":                func(c *Config) { c.Storage.SkipLayers = []int{0, 1} },
		"Storage.KScales":     func(c *Config) { c.Storage.KScales = []float32{2} },
		"Storage.VScales":     func(c *Config) { c.Storage.VScales = []float32{2} },
		"KScales of 1":        func(c *Config) { c.Storage.KScales = []float32{1, 2} },
		"of heads":            func(c *Config) { c.Storage.KScales = []float32{1, 2, 2, 2} },
		"VScales of 0":        func(c *Config) { c.Storage.VScales = []float32{2, 1} },
		"Storage.Residual":    func(c *Config) { c.Storage.Residual = 32 },
		"more Residual":       func(c *Config) { c.Storage.Residual = 64 },
	} {
		key := of(change)
		require.NotContains(t, seen, key, "%s and %s", name, seen[key])
		seen[key] = name
	}
	require.Equal(t, plain, of(func(c *Config) { c.Storage.KScales = []float32{1, 1} }), "the same in other words")
	require.Equal(t, plain, of(func(c *Config) { c.Attention.Scores = true }), "scores change no content")
	require.Equal(t, of(func(c *Config) { c.Storage.SkipLayers = []int{1, 0} }), of(func(c *Config) { c.Storage.SkipLayers = []int{0, 1, 0} }))
}
