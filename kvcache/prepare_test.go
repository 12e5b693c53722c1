package kvcache

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// heavy is a device whose kernels take memory once they are loaded.
type heavy struct {
	backend.Backend[backend.AnyBuffer]
	kernels int64
	asked   []backend.Preparation
	refuses error
}

func (h *heavy) Info() backend.Info {
	info := h.Backend.Info()
	if len(h.asked) > 0 {
		info.FreeMemory -= h.kernels
	}
	return info
}

func (h *heavy) Prepare(p backend.Preparation) error {
	h.asked = append(h.asked, p)
	return h.refuses
}

// Kernels are loaded before a pool divides the free memory, also where the device was erased, and a pool
// whose kernels do not load is none.
func TestKernelsLoadBeforeThePoolTakesTheMemory(t *testing.T) {
	own, err := cpu.Open(cpu.Options{MaxBytes: 8 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Close()) }()
	h := &heavy{Backend: backend.Erase[*cpu.Buffer](own), kernels: 4 << 20}
	cfg := Config{
		Model:     Model{Layers: 1, KVHeads: 2, QHeads: 4, HeadDim: 64, Act: backend.F32},
		Storage:   Storage{K: backend.Int8, V: backend.Int8, Residual: 32},
		Memory:    Memory{Layout: Paged, Capacity: 1 << 20, BlockSize: 16},
		Attention: Attention{Scores: true},
	}
	limit := cfg
	limit.Memory.Blocks, limit.Memory.Capacity = 20_000, 4096
	_, err = NewPool(backend.Erase[backend.AnyBuffer](h), limit)
	var size ErrPoolSize
	require.ErrorAs(t, err, &size)
	require.EqualValues(t, 8<<20, size.Max)
	require.Empty(t, h.asked, "it waits for no kernels")

	limit.Memory.Blocks = size.MaxBlocks
	_, err = NewPool(backend.Erase[backend.AnyBuffer](h), limit)
	require.ErrorAs(t, err, &size)
	require.EqualValues(t, 4<<20, size.Max)
	require.Equal(t, []backend.Preparation{{Formats: []backend.Format{{Act: backend.F32, K: backend.Int8, V: backend.Int8}},
		QHeads: 4, KVHeads: 2, KDim: 64, VDim: 64, Scores: true, Residual: true, Masks: []backend.MaskUse{{}}}}, h.asked)

	h.refuses, limit.Memory.Blocks = errors.New("no memory for kernels"), 300
	_, err = NewPool[backend.AnyBuffer](h, limit)
	require.ErrorIs(t, err, h.refuses)
	require.Zero(t, own.Info().Buffers)
}

// A device hears how a pool's sequences lie: paged ones are read as such also where they have one block so
// far.
func TestPreparationTellsTheLayout(t *testing.T) {
	own := openCPU(t)
	defer func() { require.NoError(t, own.Close()) }()
	for _, c := range []struct {
		layout     Layout
		capacity   int
		contiguous bool
	}{{Paged, 64, false}, {Paged, 16, true}, {Contiguous, 64, true}} {
		memory := Memory{Layout: c.layout, Capacity: c.capacity}
		if c.layout == Paged {
			memory.BlockSize = 16
		}
		h := &heavy{Backend: backend.Erase[*cpu.Buffer](own)}
		pool, err := NewPool[backend.AnyBuffer](h, Config{
			Model:   Model{Layers: 1, KVHeads: 2, QHeads: 4, HeadDim: 64, Act: backend.F32},
			Storage: Storage{K: backend.Int8, V: backend.Int8, Hadamard: true},
			Memory:  memory,
		})
		require.NoError(t, err)
		require.NoError(t, pool.Close())
		require.Len(t, h.asked, 1)
		require.Equal(t, c.contiguous, h.asked[0].Contiguous, "%v %d", c.layout, c.capacity)
		require.True(t, h.asked[0].Hadamard)
	}
}
