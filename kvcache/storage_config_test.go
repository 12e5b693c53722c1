package kvcache

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What does not go together is an error that names the field.
func TestStorageConfigRejects(t *testing.T) {
	quantized := Config{Layout: Paged, Layers: 2, QHeads: 8, KVHeads: 2, HeadDim: 64, K: backend.Int8}
	scaled := quantized
	scaled.K = backend.FP8E4M3
	kivi := quantized
	kivi.K, kivi.V, kivi.Residual = backend.Int4Channel, backend.Int4, 32
	for _, c := range []Config{quantized, scaled, kivi} {
		_, err := c.Resolve()
		require.NoError(t, err)
	}
	for _, c := range []struct {
		name   string
		base   Config
		change func(*Config)
	}{
		{"V", quantized, func(c *Config) { c.V = backend.Int4Channel }},
		{"K", quantized, func(c *Config) { c.K, c.V = backend.Int4Channel, backend.Int4 }},
		{"HeadDim", quantized, func(c *Config) { c.K, c.V, c.HeadDim, c.VHeadDim = backend.Int4, backend.Int8, 7, 8 }},
		{"VHeadDim", quantized, func(c *Config) { c.V, c.VHeadDim = backend.Int4G64, 9 }},
		{"Hadamard", quantized, func(c *Config) { c.K, c.V, c.Hadamard = backend.F16, backend.Int8, true }},
		{"SkipLayers[1]", quantized, func(c *Config) { c.SkipLayers = []int{0, 2} }},
		{"SkipLayers[0]", quantized, func(c *Config) { c.SkipLayers = []int{-1} }},
		{"KScales", quantized, func(c *Config) { c.KScales = []float32{1} }},
		{"VScales", quantized, func(c *Config) { c.VScales = []float32{1} }},
		{"KScales", scaled, func(c *Config) { c.KScales = make([]float32, 3) }},
		{"VScales", scaled, func(c *Config) { c.VScales = make([]float32, 8) }},
		{"KScales[1]", scaled, func(c *Config) { c.KScales = []float32{1, 0} }},
		{"VScales[0]", scaled, func(c *Config) { c.VScales = []float32{float32(math.NaN())} }},
		{"VScales[3]", scaled, func(c *Config) { c.VScales = []float32{1, 2, 3, float32(math.Inf(1))} }},
		{"KScales[0]", scaled, func(c *Config) { c.KScales = []float32{-1} }},
		{"Act", quantized, func(c *Config) { c.Act = backend.Int4 }},
		{"Residual", kivi, func(c *Config) { c.Residual = math.MaxInt }},
		{"StepTokens", kivi, func(c *Config) { c.StepTokens = -1 }},
		{"Residual", kivi, func(c *Config) { c.Layout = Contiguous }},
		{"Residual", kivi, func(c *Config) { c.K = backend.F16 }},
		{"Residual", kivi, func(c *Config) { c.V = backend.F16 }},
		{"Residual", kivi, func(c *Config) { c.Scores = true }},
	} {
		cfg := c.base
		c.change(&cfg)
		_, err := cfg.Resolve()
		var e ErrConfig
		require.ErrorAs(t, err, &e, c.name)
		require.Equal(t, c.name, e.Name, err)
		require.NotEmpty(t, e.Why)
	}
	kivi.Layers, kivi.MaxSeqs = 1, 1
	be := openCPU(t)
	_, err := NewStandalone(be, kivi)
	require.ErrorIs(t, err, ErrConfig{}, "a cache of one sequence has one place")
	require.NoError(t, be.Close())
}

// A pool of any formats allocates what Bytes says, to the byte, and BlocksFor is its
// inverse.
func TestQuantizedSizeFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		storage := func(name string) backend.DType {
			return rapid.SampledFrom([]backend.DType{backend.F16, backend.Int8, backend.Int8Asym, backend.Int4, backend.Int4G64, backend.MXFP4, backend.FP8E4M3, backend.FP8E5M2}).Draw(t, name)
		}
		cfg := Config{
			Layout:  rapid.SampledFrom([]Layout{Contiguous, Paged}).Draw(t, "layout"),
			Layers:  rapid.IntRange(1, 4).Draw(t, "layers"),
			KVHeads: rapid.IntRange(1, 3).Draw(t, "heads"), HeadDim: 2 * rapid.IntRange(1, 70).Draw(t, "dim"),
			VHeadDim: 2 * rapid.IntRange(0, 70).Draw(t, "v dim"), Capacity: rapid.IntRange(1, 300).Draw(t, "capacity"),
			MaxSeqs: rapid.IntRange(1, 4).Draw(t, "sequences"),
			K:       storage("K"), V: storage("V"), Act: rapid.SampledFrom([]backend.DType{backend.F32, backend.BF16}).Draw(t, "act"),
		}
		if rapid.Bool().Draw(t, "rope") {
			cfg.RoPE = &backend.RoPE{}
		}
		quantized := cfg.K.Quantized() && cfg.V.Quantized()
		if rapid.Bool().Draw(t, "sinks") {
			cfg.Masks = []Mask{{SinkLogits: make([]float32, cfg.KVHeads)}}
		}
		if cfg.Layout == Paged && quantized && rapid.Bool().Draw(t, "residual") {
			cfg.Residual, cfg.StepTokens = rapid.IntRange(1, 40).Draw(t, "window"), rapid.IntRange(0, 40).Draw(t, "step")
			cfg.K = rapid.SampledFrom([]backend.DType{cfg.K, backend.Int4Channel}).Draw(t, "by channel")
		} else {
			cfg.Scores = rapid.Bool().Draw(t, "scores")
			if cfg.K.Quantized() || cfg.V.Quantized() {
				cfg.SkipLayers = rapid.SliceOfN(rapid.IntRange(0, cfg.Layers-1), 0, 3).Draw(t, "skip")
			}
		}
		requireExactSize(t, cfg)
	})
}

// The bytes of a token by hand: two heads of 64 in three layers.
func TestBytesPerTokenOfQuantizedTypes(t *testing.T) {
	for dt, want := range map[backend.DType]int64{ // of a row
		backend.F16: 128, backend.Int8: 64 + 4, backend.Int8Asym: 64 + 4, backend.Int4: 32 + 2*4, backend.Int4G64: 32 + 4,
		backend.FP8E4M3: 64, backend.FP8E5M2: 64, backend.MXFP4: 32 + 4,
	} {
		cfg := Config{Layout: Paged, Layers: 3, KVHeads: 2, HeadDim: 64, K: dt, Act: backend.F32}
		got, err := cfg.BytesPerToken()
		require.NoError(t, err)
		require.Equal(t, 3*2*2*want, got, dt)
		cfg.Scores = true
		got, err = cfg.BytesPerToken()
		require.NoError(t, err)
		require.Equal(t, 3*2*(2*want+4), got, dt)
		if dt.Quantized() {
			cfg.SkipLayers = []int{1}
			got, err = cfg.BytesPerToken()
			require.NoError(t, err)
			require.Equal(t, 2*2*(2*want+4)+2*(2*64*4+4), got, dt)
		}
	}
	kivi := Config{Layout: Paged, Layers: 1, KVHeads: 2, HeadDim: 64, K: backend.Int4Channel, V: backend.Int4, Residual: 32, BlockSize: 16}
	got, err := kivi.BytesPerToken()
	require.NoError(t, err)
	require.EqualValues(t, 2*(32+64*4/16+32+2*4), got, "a word for each channel of 16 tokens")
}

// Every field that decides what is stored gives the blocks other names, and no other
// does.
func TestFingerprintOfStorage(t *testing.T) {
	base := Config{Layout: Paged, Layers: 2, KVHeads: 2, HeadDim: 64, K: backend.FP8E4M3, V: backend.FP8E4M3, Act: backend.F16}
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
		"K":             func(c *Config) { c.K = backend.FP8E5M2 },
		"V":             func(c *Config) { c.V = backend.Int8 },
		"Hadamard":      func(c *Config) { c.Hadamard = true },
		"Saturate":      func(c *Config) { c.Saturate = true },
		"Int8Query":     func(c *Config) { c.Int8Query = true },
		"the first":     func(c *Config) { c.SkipLayers = []int{0} },
		"the last":      func(c *Config) { c.SkipLayers = []int{1} },
		"both":          func(c *Config) { c.SkipLayers = []int{0, 1} },
		"KScales":       func(c *Config) { c.KScales = []float32{2} },
		"VScales":       func(c *Config) { c.VScales = []float32{2} },
		"KScales of 1":  func(c *Config) { c.KScales = []float32{1, 2} },
		"of heads":      func(c *Config) { c.KScales = []float32{1, 2, 2, 2} },
		"VScales of 0":  func(c *Config) { c.VScales = []float32{2, 1} },
		"Residual":      func(c *Config) { c.Residual = 32 },
		"more Residual": func(c *Config) { c.Residual = 64 },
	} {
		key := of(change)
		require.NotContains(t, seen, key, "%s and %s", name, seen[key])
		seen[key] = name
	}
	require.Equal(t, plain, of(func(c *Config) { c.KScales = []float32{1, 1} }), "the same in other words")
	require.Equal(t, plain, of(func(c *Config) { c.Scores = true }), "scores change no content")
	require.Equal(t, of(func(c *Config) { c.SkipLayers = []int{1, 0} }), of(func(c *Config) { c.SkipLayers = []int{0, 1, 0} }))
}
