package kvcache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// narrow is a device whose largest buffer is smaller than its memory.
type narrow struct {
	backend.Backend[*cpu.Buffer]
	most, page int64
}

func (n narrow) Caps() backend.Caps {
	c := n.Backend.Caps()
	c.MaxBuffer, c.AllocGranularity = n.most, n.page
	return c
}

// A pool that does not fit fails before anything is allocated and says how large it may
// be; one of that size fits.
func TestPoolThatDoesNotFit(t *testing.T) {
	const memory = 1 << 20
	be, err := cpu.Open(cpu.Options{MaxBytes: memory})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	paged := Config{
		Model:   Model{Layers: 3, KVHeads: 2, HeadDim: 32, QHeads: 2},
		Storage: Storage{K: backend.F32, V: backend.F32},
		Memory:  Memory{Layout: Paged, Capacity: 64, BlockSize: 16, Blocks: 1000},
	}
	contiguous := paged
	contiguous.Memory.Layout, contiguous.Memory.Blocks, contiguous.Memory.BlockSize, contiguous.Memory.MaxSeqs = Contiguous, 0, 0, 100

	for name, c := range map[string]struct {
		cfg  Config
		most int64 // bytes of a buffer
		want ErrPoolSize
	}{
		// A block of a layer has 2*16*32*4 bytes in each plane, a sequence four times that.
		"paged":                   {paged, memory, ErrPoolSize{Bytes: 3 * 1000 * 2 * 4096, Max: memory, Blocks: 1000, MaxBlocks: 42}},
		"contiguous":              {contiguous, memory, ErrPoolSize{Bytes: 3 * 100 * 2 * 16384, Max: memory, Blocks: 100, MaxBlocks: 10, Contiguous: true}},
		"a layer":                 {paged, 100_000, ErrPoolSize{Bytes: 1000 * 4096, Max: 100_000, Layer: true, Blocks: 1000, MaxBlocks: 24}},
		"a layer, in one block's": {paged, 4095, ErrPoolSize{Bytes: 1000 * 4096, Max: 4095, Layer: true, Blocks: 1000}},
		"contiguous layer":        {contiguous, 100_000, ErrPoolSize{Bytes: 100 * 16384, Max: 100_000, Layer: true, Blocks: 100, MaxBlocks: 6, Contiguous: true}},
	} {
		t.Run(name, func(t *testing.T) {
			device := narrow{be, c.most, 0}
			_, err := NewPool(device, c.cfg)
			var size ErrPoolSize
			require.ErrorAs(t, err, &size)
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, err, backend.ErrOutOfMemory{})
			require.ErrorIs(t, err, ErrPoolSize{})
			require.Zero(t, be.Info().Allocated)
			require.Zero(t, be.Info().Buffers)
			if size.MaxBlocks == 0 {
				return
			}
			fits := c.cfg
			if fits.Memory.Layout == Paged {
				fits.Memory.Blocks = size.MaxBlocks
			} else {
				fits.Memory.MaxSeqs = size.MaxBlocks
			}
			pool, err := NewPool(device, fits)
			require.NoError(t, err)
			require.NoError(t, pool.Close())
		})
	}
}

// Where buffers take whole pages, a pool leaves room for what they waste.
func TestPoolCountsPages(t *testing.T) {
	const memory, page, buffers = 1 << 20, 16 << 10, 2*3 + 1
	be, err := cpu.Open(cpu.Options{MaxBytes: memory})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	cfg := Config{
		Model:   Model{Layers: 3, KVHeads: 2, HeadDim: 32, QHeads: 2},
		Storage: Storage{K: backend.F32, V: backend.F32},
		Memory:  Memory{Layout: Paged, Capacity: 64, BlockSize: 16, Blocks: 42},
	}
	pool, err := NewPool(narrow{be, memory, 0}, cfg)
	require.NoError(t, err)
	require.NoError(t, pool.Close())
	_, err = NewPool(narrow{be, memory, page}, cfg)
	const room = memory - buffers*(page-1)
	require.ErrorIs(t, err, ErrPoolSize{Bytes: 3 * 42 * 2 * 4096, Max: room, Blocks: 42, MaxBlocks: room / (3 * 2 * 4096)})
}

// Sizes that are too large are reported in readable units, with the fields that were set.
func TestPoolThatDoesNotFitSaysWhatWasSet(t *testing.T) {
	be, err := cpu.Open(cpu.Options{MaxBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	const fewer = ", or store K and V in fewer bits: out of device memory"
	for want, memory := range map[string]Memory{
		"a pool of 11.7 MiB does not fit, 1.0 MiB are free: at most 85 of 1000 blocks; lower Memory.Blocks":                    {Layout: Paged, Blocks: 1000, Capacity: 64},
		"a pool of 6.0 MiB does not fit, 1.0 MiB are free: at most 85 of 512 blocks; lower Memory.MaxSeqs or Memory.Capacity":  {Layout: Paged, Capacity: 4096, MaxSeqs: 2},
		"a pool of 96.0 MiB does not fit, 1.0 MiB are free: at most 0 of 2 sequences; lower Memory.MaxSeqs or Memory.Capacity": {Layout: Contiguous, Capacity: 65536, MaxSeqs: 2},
		"a pool of 6.0 MiB does not fit, 1.0 MiB are free: at most 85 of 512 blocks; lower Memory.Capacity":                    {Layout: Paged, Capacity: 8192},
	} {
		_, err := NewPool(narrow{be, 1 << 20, 0}, Config{Model: Model{Layers: 3, KVHeads: 1, HeadDim: 32, QHeads: 1}, Storage: Storage{K: backend.F32, V: backend.F32}, Memory: memory})
		require.EqualError(t, err, "kvcache: NewPool: "+want+fewer)
	}
}
