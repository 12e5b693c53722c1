package kvcache

import (
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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
		var e ErrConfig
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
	base := Config{Layers: 1, KVHeads: 2, HeadDim: 64}
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
		cfg.Layout = c.option
		got, err := cfg.ResolveWith(Environment{Layout: c.env})
		require.NoError(t, err)
		value, from := source(got, "layout")
		require.Equal(t, c.want, value)
		require.Equal(t, c.source, from)
	}
	got, err := base.ResolveWith(Environment{Layout: Paged, Capacity: 100, MaxSeqs: 3, DType: backend.BF16})
	require.NoError(t, err)
	require.Equal(t, 3*7, got.Blocks, "3 sequences of ceil(100/16) blocks")
	require.Equal(t, [3]backend.DType{backend.BF16, backend.BF16, backend.BF16}, [3]backend.DType{got.K, got.V, got.Act})
	got, err = base.ResolveWith(Environment{Layout: Paged, MaxBlocks: 5})
	require.NoError(t, err)
	value, from := source(got, "blocks")
	require.Equal(t, "5", value)
	require.Equal(t, FromEnvironment, from)
	require.InDelta(t, 0.125, got.Scale, 1e-7)
}

// spoilt is a value for each of eight heads, one of which is not a number to compute with.
func spoilt(head int, value float64) []float32 {
	out := make([]float32, 8)
	out[head] = float32(value)
	return out
}

func TestConfigRejects(t *testing.T) {
	ok := Config{Layers: 2, QHeads: 8, KVHeads: 2, HeadDim: 64}
	_, err := ok.Resolve()
	require.NoError(t, err)
	for name, change := range map[string]func(*Config){
		"Layers":                 func(c *Config) { c.Layers = 0 },
		"KVHeads":                func(c *Config) { c.KVHeads = -1 },
		"HeadDim":                func(c *Config) { c.HeadDim = 0 },
		"VHeadDim":               func(c *Config) { c.VHeadDim = -1 },
		"QHeads":                 func(c *Config) { c.QHeads = 7 },
		"Layout":                 func(c *Config) { c.Layout = 3 },
		"BlockSize":              func(c *Config) { c.Layout, c.BlockSize = Paged, 24 },
		"Blocks":                 func(c *Config) { c.Layout, c.Blocks = Contiguous, 3 },
		"Capacity":               func(c *Config) { c.Capacity = math.MaxInt },
		"MaxSeqs":                func(c *Config) { c.MaxSeqs = -3 },
		"Scale":                  func(c *Config) { c.Scale = float32(math.NaN()) },
		"Act":                    func(c *Config) { c.Act = backend.Int8 },
		"K":                      func(c *Config) { c.K = backend.U32 },
		"V":                      func(c *Config) { c.V = backend.I64 },
		"Masks":                  func(c *Config) { c.Masks = make([]Mask, 3) },
		"Masks[0].ALiBi":         func(c *Config) { c.Masks = []Mask{{ALiBi: make([]float32, 3)}} },
		"Masks[1]":               func(c *Config) { c.Masks = []Mask{{}, {Window: -1}} },
		"Masks[0].ALiBi[2]":      func(c *Config) { c.Masks = []Mask{{ALiBi: spoilt(2, math.NaN())}} },
		"Masks[0].ALiBi[7]":      func(c *Config) { c.Masks = []Mask{{ALiBi: spoilt(7, math.Inf(1))}} },
		"Masks[1].ALiBi[0]":      func(c *Config) { c.Masks = []Mask{{}, {ALiBi: spoilt(0, math.Inf(-1))}} },
		"Masks[0].SinkLogits[0]": func(c *Config) { c.Masks = []Mask{{SinkLogits: spoilt(0, math.NaN())}} },
		"Masks[0].SinkLogits[3]": func(c *Config) { c.Masks = []Mask{{SinkLogits: spoilt(3, math.Inf(1))}} },
		"Masks[1].SinkLogits[7]": func(c *Config) { c.Masks = []Mask{{}, {SinkLogits: spoilt(7, math.Inf(-1))}} },
		"Masks[0].SinkLogits":    func(c *Config) { c.Masks = []Mask{{SinkLogits: make([]float32, 2)}} },
		"RoPE":                   func(c *Config) { c.RoPE = &backend.RoPE{Dims: 3} },
		"SkipLayers":             func(c *Config) { c.SkipLayers = []int{0} },
		"Hadamard":               func(c *Config) { c.Hadamard = true },
		"KScales":                func(c *Config) { c.KScales = []float32{1} },
		"Residual":               func(c *Config) { c.Residual = -1 },
		"StepTokens":             func(c *Config) { c.StepTokens = 16 },
	} {
		cfg := ok
		change(&cfg)
		_, err := cfg.Resolve()
		var e ErrConfig
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, name, e.Name)
	}
}

// Regression for sizes that wrap around: they are an error, not a small cache.
func TestRegressionOverflowingSizes(t *testing.T) {
	huge := Config{Layout: Paged, Layers: 1 << 20, KVHeads: 1 << 20, HeadDim: 1 << 20, Capacity: 1 << 30, MaxSeqs: 1 << 20}
	_, err := huge.Resolve()
	require.ErrorIs(t, err, backend.ErrShape{})
	for _, c := range []Config{
		{Layout: Contiguous, Layers: 1, KVHeads: 1 << 30, HeadDim: 1 << 30, Capacity: 1 << 30},
		{Layout: Paged, Layers: 1, KVHeads: 1, HeadDim: 1, Blocks: 1 << 30, BlockSize: 1 << 30, K: backend.F32, VHeadDim: 1 << 30},
		{Layout: Paged, Layers: 1 << 30, KVHeads: 1 << 20, HeadDim: 1 << 10, BlockSize: 1 << 20},
	} {
		_, err := c.Resolve()
		require.ErrorIs(t, err, backend.ErrShape{}, "%+v", c)
	}
}

// The size formula is what a pool allocates, to the byte, and its inverse is the
// largest pool within a budget.
func TestSizeFormula(t *testing.T) {
	dtypes := []backend.DType{backend.F32, backend.F16, backend.BF16}
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Layout:  rapid.SampledFrom([]Layout{Contiguous, Paged}).Draw(t, "layout"),
			Layers:  rapid.IntRange(1, 4).Draw(t, "layers"),
			KVHeads: rapid.IntRange(1, 3).Draw(t, "heads"), HeadDim: 2 * rapid.IntRange(1, 40).Draw(t, "dim"),
			VHeadDim: rapid.IntRange(0, 70).Draw(t, "v dim"), Capacity: rapid.IntRange(1, 300).Draw(t, "capacity"),
			MaxSeqs: rapid.IntRange(1, 4).Draw(t, "sequences"),
			K:       rapid.SampledFrom(dtypes).Draw(t, "K"), V: rapid.SampledFrom(dtypes).Draw(t, "V"),
		}
		if rapid.Bool().Draw(t, "rope") {
			cfg.RoPE = &backend.RoPE{}
		}
		if rapid.Bool().Draw(t, "masks") {
			cfg.Masks = []Mask{{Window: 5, ALiBi: make([]float32, cfg.KVHeads), SinkLogits: make([]float32, cfg.KVHeads)}}
		}
		requireExactSize(t, cfg)
	})
	none, err := Config{Layers: 1, KVHeads: 1, HeadDim: 8}.BlocksFor(-5)
	require.NoError(t, err)
	require.Zero(t, none)
}

func FuzzEnvironment(f *testing.F) {
	f.Add("1", "4096", "8", "2048", "f16")
	f.Add("", "0x10", "-0", "٣", "INT4")
	f.Fuzz(func(t *testing.T, paged, capacity, seqs, blocks, dtype string) {
		got, err := ParseEnvironment(env(EnvPaged, paged, EnvCapacity, capacity, EnvMaxSeqs, seqs, EnvMaxBlocks, blocks, EnvDType, dtype))
		if err != nil {
			require.ErrorIs(t, err, ErrConfig{})
			require.True(t, strings.HasPrefix(err.(ErrConfig).Name, "FERRUM_"))
			require.Equal(t, Environment{}, got)
			return
		}
		require.True(t, paged == "" || (got.Layout == Paged) == (paged == "1"))
		require.True(t, (got.Capacity == 0) == (capacity == "") && got.Capacity >= 0 && got.Capacity <= maxSetting)
		require.True(t, (got.DType == backend.Invalid) == (dtype == ""))
	})
}

// A configuration that was changed after Resolve is checked again, and keeps the
// origin of what was not.
func TestResolvedConfigIsCheckedAgain(t *testing.T) {
	be := openCPU(t)
	defer func() { require.NoError(t, be.Close()) }()
	for _, layout := range []Layout{Contiguous, Paged} {
		base, err := small(layout).ResolveWith(Environment{MaxBlocks: 7})
		require.NoError(t, err)
		again, err := base.Resolve()
		require.NoError(t, err)
		require.Equal(t, base, again)
		for _, spoil := range []func(*Config){
			func(c *Config) { c.KVHeads = 0 }, func(c *Config) { c.Layers = -1 }, func(c *Config) { c.QHeads = 3 },
			func(c *Config) { c.Act = backend.I32 }, func(c *Config) { c.Scale = -1 }, func(c *Config) { c.HeadDim = 3 },
		} {
			bad := base
			spoil(&bad)
			_, err := bad.Bytes()
			require.ErrorIs(t, err, ErrConfig{})
			_, err = NewPool[*cpu.Buffer](be, bad)
			require.ErrorIs(t, err, ErrConfig{})
		}
	}
	c, err := small(Contiguous).ResolveWith(Environment{})
	require.NoError(t, err)
	c.MaxSeqs = 9
	c, err = c.Resolve()
	require.NoError(t, err)
	require.Equal(t, 9, c.Blocks, "blocks of a contiguous pool follow its sequences")
}

// A pool that the device has no room for costs no host memory either: the device
// is asked first.
func TestTooManyBlocksCostNothing(t *testing.T) {
	be, err := cpu.Open(cpu.Options{Threads: 1, MaxBytes: 1 << 20})
	require.NoError(t, err)
	cfg := small(Paged)
	cfg.Blocks = 1 << 22
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = NewPool[*cpu.Buffer](be, cfg)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, backend.ErrOutOfMemory)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	require.Zero(t, be.Info().Buffers)
	require.NoError(t, be.Close())
}

// smallBuffers is a device whose buffers end at 2,000 bytes.
type smallBuffers struct{ *cpu.Backend }

func (smallBuffers) Caps() backend.Caps {
	return backend.Caps{Formats: []backend.Format{{Act: backend.F32, K: backend.F32, V: backend.F32}}, MaxBuffer: 2000,
		HeadDims: [][2]int{{4, 6}}, BlockSizes: []int{4}}
}

// What a device cannot hold or compute is an error before anything is allocated.
func TestRegressionKernelWithoutProbe(t *testing.T) {
	be := smallBuffers{openCPU(t)}
	for _, c := range []struct {
		change func(*Config)
		want   error
	}{
		{func(c *Config) {}, nil},
		{func(c *Config) { c.Blocks = 20 }, backend.ErrOutOfMemory}, // values: 20·2·4·6 f32
		{func(c *Config) { c.V = backend.F16 }, backend.ErrUnsupported{}},
		{func(c *Config) { c.VHeadDim = 4 }, backend.ErrUnsupported{}},
		{func(c *Config) { c.BlockSize = 8 }, backend.ErrUnsupported{}},
	} {
		cfg := small(Paged)
		cfg.HeadDim, cfg.VHeadDim, cfg.Blocks = 4, 6, 5
		c.change(&cfg)
		pool, err := NewPool[*cpu.Buffer](be, cfg)
		if c.want != nil {
			require.ErrorIs(t, err, c.want)
		} else {
			require.NoError(t, err)
			require.NoError(t, pool.Close())
		}
		require.Zero(t, be.Info().Buffers)
	}
	require.NoError(t, be.Close())
}

// A default that does not fit the device is lowered, and nothing else is.
func TestConfigWithin(t *testing.T) {
	base := Config{Layout: Paged, Layers: 2, KVHeads: 2, HeadDim: 64, Capacity: 160}
	whole, err := base.Resolve()
	require.NoError(t, err)
	require.Equal(t, 80, whole.Blocks)
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
		{"blocks were chosen", func(c *Config) { c.Blocks = 70 }, 50 * perBlock, 70},
		{"sequences were chosen", func(c *Config) { c.MaxSeqs = 8 }, 50 * perBlock, 80},
		{"contiguous", func(c *Config) { c.Layout = Contiguous }, perBlock, 8},
	} {
		cfg := base
		c.change(&cfg)
		got, err := cfg.Within(c.free)
		require.NoError(t, err, c.name)
		require.Equal(t, c.blocks, got.Blocks, c.name)
		again, err := got.Within(c.free)
		require.NoError(t, err, c.name)
		require.Equal(t, got.Blocks, again.Blocks, c.name)
	}
}

// requireExactSize checks that Bytes is what a pool allocates, and BlocksFor its inverse.
func requireExactSize(t require.TestingT, cfg Config) {
	want, err := cfg.Bytes()
	require.NoError(t, err)
	be := openCPU(t)
	pool, err := NewPool(be, cfg)
	require.NoError(t, err)
	require.Equal(t, want, be.Info().Allocated)
	require.NoError(t, pool.Close())
	require.NoError(t, be.Close())

	blocks, err := cfg.BlocksFor(want)
	require.NoError(t, err)
	resolved, err := cfg.Resolve()
	require.NoError(t, err)
	require.Equal(t, resolved.Blocks, blocks)
	less, err := cfg.BlocksFor(want - 1)
	require.NoError(t, err)
	require.Equal(t, blocks-1, less)
}
