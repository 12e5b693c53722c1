package config

import (
	"math"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestEnvironment(t *testing.T) {
	got, err := ParseEnvironment(env())
	require.NoError(t, err)
	require.Equal(t, Environment{}, got)
	got, err = ParseEnvironment(env(EnvPaged, "", EnvCapacity, "", EnvDType, ""))
	require.NoError(t, err)
	require.Equal(t, Environment{}, got, "an empty value is unset")
	got, err = ParseEnvironment(env(EnvPaged, "1", EnvCapacity, "8192", EnvMaxSeqs, "3", EnvMaxBlocks, "77", EnvDType, "bf16"))
	require.NoError(t, err)
	require.Equal(t, Environment{Layout: Paged, Capacity: 8192, MaxSeqs: 3, MaxBlocks: 77, DType: backend.BF16}, got)
	got, err = ParseEnvironment(env(EnvPaged, "0", EnvDType, "FP16"))
	require.NoError(t, err)
	require.Equal(t, Environment{Layout: Contiguous, DType: backend.F16}, got)

	for _, bad := range [][2]string{
		{EnvPaged, "2"}, {EnvPaged, "true"}, {EnvPaged, " 1"}, {EnvPaged, "yes"},
		{EnvCapacity, "0"}, {EnvCapacity, "-1"}, {EnvCapacity, "4k"}, {EnvCapacity, "99999999999999999999"}, {EnvCapacity, "1e3"},
		{EnvMaxSeqs, "0"}, {EnvMaxSeqs, "x"}, {EnvMaxBlocks, "0"}, {EnvMaxBlocks, "2147483648"},
		{EnvDType, "f64"}, {EnvDType, "u32"}, {EnvDType, "invalid"}, {EnvDType, "int 8"},
	} {
		_, err := ParseEnvironment(env(bad[:]...))
		var e backend.ErrConfig
		require.ErrorAs(t, err, &e, "%v", bad)
		require.Equal(t, bad[0], e.Name)
		require.Equal(t, bad[1], e.Value)
		require.Contains(t, err.Error(), "accepts")
	}
}

// The layout follows the option, then the variable, then the default; each value
// remembers which.
func TestConfigOrigins(t *testing.T) {
	source := func(c Config, name string) (string, Source) {
		for _, s := range c.Settings() {
			if s.Name == name {
				return s.Value, s.Source
			}
		}
		t.Fatalf("no setting %s", name)
		return "", 0
	}
	base := Config{Model: Model{Layers: 1, KVHeads: 2, HeadDim: 64}}
	for _, c := range []struct {
		option Layout
		env    Layout
		want   string
		source Source
	}{
		{LayoutUnset, LayoutUnset, "contiguous", FromDefault},
		{LayoutUnset, Paged, "paged", FromEnvironment},
		{LayoutUnset, Contiguous, "contiguous", FromEnvironment},
		{Paged, Contiguous, "paged", FromOption},
		{Contiguous, Paged, "contiguous", FromOption},
	} {
		cfg := base
		cfg.Memory.Layout = c.option
		got, err := cfg.ResolveWith(Environment{Layout: c.env})
		require.NoError(t, err)
		value, from := source(got, "layout")
		require.Equal(t, c.want, value)
		require.Equal(t, c.source, from)
	}
	got, err := base.ResolveWith(Environment{Layout: Paged, Capacity: 100, MaxSeqs: 3, DType: backend.BF16})
	require.NoError(t, err)
	require.Equal(t, 3*7, got.Memory.Blocks, "3 sequences of ceil(100/16) blocks")
	require.Equal(t, [3]backend.DType{backend.BF16, backend.BF16, backend.BF16}, [3]backend.DType{got.Storage.K, got.Storage.V, got.Model.Act})
	got, err = base.ResolveWith(Environment{Layout: Paged, MaxBlocks: 5})
	require.NoError(t, err)
	value, from := source(got, "blocks")
	require.Equal(t, "5", value)
	require.Equal(t, FromEnvironment, from)
	require.InDelta(t, 0.125, got.Model.Scale, 1e-7)
}

// spoilt is a value for each of eight heads, one of which is not a number to compute with.
func spoilt(head int, value float64) []float32 {
	out := make([]float32, 8)
	out[head] = float32(value)
	return out
}

func TestConfigRejects(t *testing.T) {
	ok := Config{Model: Model{Layers: 2, QHeads: 8, KVHeads: 2, HeadDim: 64}}
	_, err := ok.Resolve()
	require.NoError(t, err)
	for name, change := range map[string]func(*Config){
		"Model.Layers":              func(c *Config) { c.Model.Layers = 0 },
		"Model.KVHeads":             func(c *Config) { c.Model.KVHeads = -1 },
		"Model.HeadDim":             func(c *Config) { c.Model.HeadDim = 0 },
		"Model.VHeadDim":            func(c *Config) { c.Model.VHeadDim = -1 },
		"Model.QHeads":              func(c *Config) { c.Model.QHeads = 7 },
		"Memory.Layout":             func(c *Config) { c.Memory.Layout = 3 },
		"Memory.BlockSize":          func(c *Config) { c.Memory.Layout, c.Memory.BlockSize = Contiguous, 16 },
		"Model.Masks[0].Chunk":      func(c *Config) { c.Model.Masks = []Mask{{Chunk: 8, Window: 4}} },
		"Memory.Blocks":             func(c *Config) { c.Memory.Layout, c.Memory.Blocks = Contiguous, 3 },
		"Memory.Capacity":           func(c *Config) { c.Memory.Capacity = math.MaxInt },
		"Memory.MaxSeqs":            func(c *Config) { c.Memory.MaxSeqs = -3 },
		"Model.Scale":               func(c *Config) { c.Model.Scale = float32(math.NaN()) },
		"Model.Act":                 func(c *Config) { c.Model.Act = backend.Int8 },
		"Storage.K":                 func(c *Config) { c.Storage.K = backend.U32 },
		"Storage.V":                 func(c *Config) { c.Storage.V = backend.I64 },
		"Model.Masks":               func(c *Config) { c.Model.Masks = make([]Mask, 3) },
		"Model.Masks[0].ALiBi":      func(c *Config) { c.Model.Masks = []Mask{{ALiBi: make([]float32, 3)}} },
		"Model.Masks[1].Window":     func(c *Config) { c.Model.Masks = []Mask{{}, {Window: -1}} },
		"Model.Masks[0].Window":     func(c *Config) { c.Model.Masks = []Mask{{Window: math.MaxInt}, {Window: math.MaxInt - 1}} },
		"Model.Masks[0].SinkTokens": func(c *Config) { c.Model.Masks = []Mask{{Window: 4, SinkTokens: maxSetting + 1}} },
		"Model.Masks[1].SinkTokens": func(c *Config) {
			c.Model.NonCausal, c.Model.Masks = true, []Mask{{Window: 4, SinkTokens: 2}, {SinkTokens: 2}}
		},
		"Model.Masks[1].Chunk":         func(c *Config) { c.Model.Masks = []Mask{{}, {Chunk: -1}} },
		"Model.Masks[0].SoftCap":       func(c *Config) { c.Model.Masks = []Mask{{SoftCap: float32(math.Inf(1))}} },
		"Model.Masks[0].ALiBi[2]":      func(c *Config) { c.Model.Masks = []Mask{{ALiBi: spoilt(2, math.NaN())}} },
		"Model.Masks[0].ALiBi[7]":      func(c *Config) { c.Model.Masks = []Mask{{ALiBi: spoilt(7, math.Inf(1))}} },
		"Model.Masks[1].ALiBi[0]":      func(c *Config) { c.Model.Masks = []Mask{{}, {ALiBi: spoilt(0, math.Inf(-1))}} },
		"Model.Masks[0].SinkLogits[0]": func(c *Config) { c.Model.Masks = []Mask{{SinkLogits: spoilt(0, math.NaN())}} },
		"Model.Masks[0].SinkLogits[3]": func(c *Config) { c.Model.Masks = []Mask{{SinkLogits: spoilt(3, math.Inf(1))}} },
		"Model.Masks[1].SinkLogits[7]": func(c *Config) { c.Model.Masks = []Mask{{}, {SinkLogits: spoilt(7, math.Inf(-1))}} },
		"Model.Masks[0].SinkLogits":    func(c *Config) { c.Model.Masks = []Mask{{SinkLogits: make([]float32, 2)}} },
		"Model.RoPE":                   func(c *Config) { c.Model.RoPE = &backend.RoPE{Dims: 3} },
		"Storage.SkipLayers":           func(c *Config) { c.Storage.SkipLayers = []int{0} },
		"Storage.Hadamard":             func(c *Config) { c.Storage.Hadamard = true },
		"Storage.KScales":              func(c *Config) { c.Storage.KScales = []float32{1} },
		"Storage.Residual":             func(c *Config) { c.Storage.Residual = -1 },
		"Memory.StepTokens":            func(c *Config) { c.Memory.StepTokens = 16 },
	} {
		cfg := ok
		change(&cfg)
		_, err := cfg.Resolve()
		var e backend.ErrConfig
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, name, e.Name)
	}
}

// Regression for sizes that wrap around: they are an error, not a small cache.
func TestRegressionOverflowingSizes(t *testing.T) {
	huge := Config{
		Model:  Model{Layers: 1 << 20, KVHeads: 1 << 20, HeadDim: 1 << 20},
		Memory: Memory{Layout: Paged, Capacity: 1 << 30, MaxSeqs: 1 << 20},
	}
	_, err := huge.Resolve()
	require.ErrorIs(t, err, backend.ErrConfig{})
	for _, c := range []Config{
		{
			Model:  Model{Layers: 1, KVHeads: 1 << 30, HeadDim: 1 << 30},
			Memory: Memory{Layout: Contiguous, Capacity: 1 << 30},
		},
		{
			Model:   Model{Layers: 1, KVHeads: 1, HeadDim: 1, VHeadDim: 1 << 30},
			Storage: Storage{K: backend.F32},
			Memory:  Memory{Layout: Paged, Blocks: 1 << 30, BlockSize: 1 << 30},
		},
		{
			Model:  Model{Layers: 1 << 30, KVHeads: 1 << 20, HeadDim: 1 << 10},
			Memory: Memory{Layout: Paged, BlockSize: 1 << 20},
		},
	} {
		_, err := c.Resolve()
		require.ErrorIs(t, err, backend.ErrConfig{}, "%+v", c)
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("1", "4096", "8", "2048", "f16")
	f.Add("", "0x10", "-0", "٣", "INT4")
	f.Fuzz(func(t *testing.T, paged, capacity, seqs, blocks, dtype string) {
		got, err := ParseEnvironment(env(EnvPaged, paged, EnvCapacity, capacity, EnvMaxSeqs, seqs, EnvMaxBlocks, blocks, EnvDType, dtype))
		if err != nil {
			require.ErrorIs(t, err, backend.ErrConfig{})
			require.True(t, strings.HasPrefix(err.(backend.ErrConfig).Name, "FERRUM_"))
			require.Equal(t, Environment{}, got)
			return
		}
		require.True(t, paged == "" || (got.Layout == Paged) == (paged == "1"))
		require.True(t, (got.Capacity == 0) == (capacity == "") && got.Capacity >= 0 && got.Capacity <= maxSetting)
		require.True(t, (got.DType == backend.Invalid) == (dtype == ""))
	})
}

// A default that does not fit the device is lowered, and nothing else is.
func TestConfigWithin(t *testing.T) {
	base := Config{Model: Model{Layers: 2, KVHeads: 2, HeadDim: 64}, Memory: Memory{Layout: Paged, Capacity: 160}}
	whole, err := base.Resolve()
	require.NoError(t, err)
	require.Equal(t, 80, whole.Memory.Blocks)
	perBlock := int64(2 * 2 * 2 * 64 * 16 * 2)
	for _, c := range []struct {
		name   string
		change func(*Config)
		free   int64
		blocks int
	}{
		{"unknown", func(*Config) {}, 0, 80},
		{"plenty", func(*Config) {}, 100 * perBlock, 80},
		{"nine tenths are exactly enough", func(*Config) {}, (80*perBlock*10 + 8) / 9, 80},
		{"half", func(*Config) {}, 50 * perBlock, 45},
		{"less than one sequence", func(*Config) {}, 5 * perBlock, 10},
		{"blocks were chosen", func(c *Config) { c.Memory.Blocks = 70 }, 50 * perBlock, 70},
		{"sequences were chosen", func(c *Config) { c.Memory.MaxSeqs = 8 }, 50 * perBlock, 80},
		{"contiguous", func(c *Config) { c.Memory.Layout = Contiguous }, perBlock, 8},
	} {
		cfg := base
		c.change(&cfg)
		got, err := cfg.Within(c.free)
		require.NoError(t, err, c.name)
		require.Equal(t, c.blocks, got.Memory.Blocks, c.name)
		again, err := got.Within(c.free)
		require.NoError(t, err, c.name)
		require.Equal(t, got.Memory.Blocks, again.Memory.Blocks, c.name)
	}
}

// A variable that lookup does not find is unset, whatever value it returns.
func TestEnvironmentThatIsNotSet(t *testing.T) {
	got, err := ParseEnvironment(func(string) (string, bool) { return "1", false })
	require.NoError(t, err)
	require.Zero(t, got)
}

// SizeSettings names variables where an operator set the size, and fields where the program did.
func TestSizeSettings(t *testing.T) {
	for want, c := range map[string]struct {
		memory Memory
		env    Environment
	}{
		"Memory.MaxSeqs or Memory.Capacity":           {},
		"FERRUM_PAGED_MAX_SEQS or FERRUM_KV_CAPACITY": {Memory{Layout: Paged}, Environment{Capacity: 32768, MaxSeqs: 32}},
		"FERRUM_PAGED_MAX_SEQS or Memory.Capacity":    {Memory{Layout: Contiguous, Capacity: 100}, Environment{Capacity: 32768, MaxSeqs: 32}},
		"FERRUM_KV_MAX_BLOCKS":                        {Memory{Layout: Paged, Capacity: 64}, Environment{MaxBlocks: 1000}},
		"Memory.Blocks":                               {Memory{Layout: Paged, Blocks: 64, Capacity: 64}, Environment{MaxBlocks: 1000}},
		"Memory.Capacity":                             {Memory{Layout: Paged, Capacity: 64}, Environment{}},
	} {
		cfg, err := Config{Model: Model{Layers: 1, KVHeads: 1, HeadDim: 32}, Memory: c.memory}.ResolveWith(c.env)
		require.NoError(t, err)
		require.Equal(t, want, cfg.SizeSettings())
	}
}
