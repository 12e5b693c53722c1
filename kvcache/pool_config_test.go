package kvcache

import (
	"runtime"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The size formula is what a pool allocates, to the byte, and its inverse is the
// largest pool within a budget.
func TestSizeFormula(t *testing.T) {
	dtypes := []backend.DType{backend.F32, backend.F16, backend.BF16}
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Model:   Model{Layers: rapid.IntRange(1, 4).Draw(t, "layers"), KVHeads: rapid.IntRange(1, 3).Draw(t, "heads"), HeadDim: 2 * rapid.IntRange(1, 40).Draw(t, "dim"), VHeadDim: rapid.IntRange(0, 70).Draw(t, "v dim")},
			Storage: Storage{K: rapid.SampledFrom(dtypes).Draw(t, "K"), V: rapid.SampledFrom(dtypes).Draw(t, "V")},
			Memory:  Memory{Layout: rapid.SampledFrom([]Layout{Contiguous, Paged}).Draw(t, "layout"), Capacity: rapid.IntRange(1, 300).Draw(t, "capacity"), MaxSeqs: rapid.IntRange(1, 4).Draw(t, "sequences")},
		}
		if rapid.Bool().Draw(t, "rope") {
			cfg.Model.RoPE = &backend.RoPE{}
		}
		if rapid.Bool().Draw(t, "masks") {
			cfg.Model.Masks = []Mask{{Window: 5, ALiBi: make([]float32, cfg.Model.KVHeads), SinkLogits: make([]float32, cfg.Model.KVHeads)}}
		}
		requireExactSize(t, cfg)
	})
	none, err := Config{Model: Model{Layers: 1, KVHeads: 1, HeadDim: 8}}.BlocksFor(-5)
	require.NoError(t, err)
	require.Zero(t, none)
}

// A configuration that was changed after Resolve is checked again, and keeps the
// origin of what was not.
func TestResolvedConfigIsCheckedAgain(t *testing.T) {
	be := openCPU(t)
	defer func() { require.NoError(t, be.Close()) }()
	for _, layout := range []Layout{Contiguous, Paged} {
		base, err := small(layout).ResolveWith(config.Environment{MaxBlocks: 7})
		require.NoError(t, err)
		again, err := base.Resolve()
		require.NoError(t, err)
		require.Equal(t, base, again)
		for _, spoil := range []func(*Config){
			func(c *Config) { c.Model.KVHeads = 0 }, func(c *Config) { c.Model.Layers = -1 }, func(c *Config) { c.Model.QHeads = 3 },
			func(c *Config) { c.Model.Act = backend.I32 }, func(c *Config) { c.Model.Scale = -1 }, func(c *Config) { c.Model.HeadDim = 3 },
		} {
			bad := base
			spoil(&bad)
			_, err := bad.Bytes()
			require.ErrorIs(t, err, ErrConfig{})
			_, err = NewPool[*cpu.Buffer](be, bad)
			require.ErrorIs(t, err, ErrConfig{})
		}
	}
	c, err := small(Contiguous).ResolveWith(config.Environment{})
	require.NoError(t, err)
	c.Memory.MaxSeqs = 9
	c, err = c.Resolve()
	require.NoError(t, err)
	require.Equal(t, 9, c.Memory.Blocks, "blocks of a contiguous pool follow its sequences")
}

// A pool that the device has no room for costs no host memory either: the device
// is asked first.
func TestTooManyBlocksCostNothing(t *testing.T) {
	be, err := cpu.Open(cpu.Options{Threads: 1, MaxBytes: 1 << 20})
	require.NoError(t, err)
	cfg := small(Paged)
	cfg.Memory.Blocks = 1 << 22
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = NewPool[*cpu.Buffer](be, cfg)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
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
		{func(c *Config) { c.Memory.Blocks = 20 }, backend.ErrOutOfMemory{}}, // values: 20·2·4·6 f32
		{func(c *Config) { c.Storage.V = backend.F16 }, backend.ErrUnsupported{}},
		{func(c *Config) { c.Model.VHeadDim = 4 }, backend.ErrUnsupported{}},
		{func(c *Config) { c.Memory.BlockSize = 8 }, backend.ErrUnsupported{}},
	} {
		cfg := small(Paged)
		cfg.Model.HeadDim, cfg.Model.VHeadDim, cfg.Memory.Blocks = 4, 6, 5
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
	require.Equal(t, resolved.Memory.Blocks, blocks)
	less, err := cfg.BlocksFor(want - 1)
	require.NoError(t, err)
	require.Equal(t, blocks-1, less)
}

// blind is a device that can no more than plain masks, and blocks of a power of two tokens.
type blind struct{ *cpu.Backend }

func (b blind) Caps() backend.Caps {
	c := b.Backend.Caps()
	c.Views, c.TreeWords, c.Chunk, c.AnyBlockSize = false, 0, false, false
	return c
}

// What a device lacks is refused by name, in a pool when it is made, in a step when it is added.
func TestDevicesWithoutViews(t *testing.T) {
	be := blind{openCPU(t)}
	for why, change := range map[string]func(*Config){
		"windows both ways": func(c *Config) { c.Model.NonCausal, c.Model.Masks = true, []Mask{{}, {Window: 3}} },
		"chunks in masks":   func(c *Config) { c.Model.Masks = []Mask{{}, {Chunk: 3}} },
		"power of two":      func(c *Config) { c.Memory.BlockSize = 3 },
	} {
		cfg := small(Paged)
		change(&cfg)
		_, err := NewPool[*cpu.Buffer](be, cfg)
		require.ErrorIs(t, err, backend.ErrUnsupported{}, why)
		require.ErrorContains(t, err, why)
	}
	r := newRig[*cpu.Buffer](t, be, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[*cpu.Buffer]{a, sequence(1, 5)}))
	for _, err := range []error{r.step.Query(a, once(1, 5)), r.step.AddSpans(a, sequence(6, 3), between(0, 2)), r.step.AddTree(a, []uint32{6}, []int{-1})} {
		require.ErrorIs(t, err, backend.ErrUnsupported{})
		require.ErrorContains(t, err, "views of queries")
	}
	require.NoError(t, r.step.AddSpans(a, sequence(6, 3), nil))
	require.NoError(t, r.step.Add(a, sequence(9, 2)), "several additions are for every device")
	require.NoError(t, r.step.Plan(r.s))
	r.write(r.s, feed[*cpu.Buffer]{a, sequence(6, 5)})
	require.NoError(t, r.step.Commit())
	r.expect(r.s, a, tokens(sequence(1, 10)...))
	require.NoError(t, a.Release())
	r.close()
}
