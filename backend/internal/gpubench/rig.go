package gpubench

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// rig is a device under one benchmark.
type rig[B launch.Buffer] struct {
	Device[B]
	b      testing.TB
	limits limits
	states [][2]string              // of the device, by when
	random map[backend.DType][]byte // what memory is filled with
	turn   int                      // of the last call of an operation
}

// size is a size of a shape.
func (r *rig[B]) size(device, emulated int) int {
	if r.Emulated {
		return emulated
	}
	return device
}

// alloc returns memory that lives as long as the benchmark. One that a small device has
// no room for is skipped.
func (r *rig[B]) alloc(dt backend.DType, n int) B {
	buf, err := r.Backend.Alloc(dt, n)
	if errors.Is(err, backend.ErrOutOfMemory) {
		r.b.Skip(err)
	}
	require.NoError(r.b, err)
	r.b.Cleanup(func() { require.NoError(r.b, r.Backend.Free(buf)) })
	return buf
}

// filled is n numbers of [−1, 1), or as many codes: constant ones would take less power,
// and time.
func (r *rig[B]) filled(dt backend.DType, n int) B {
	pattern, ok := r.random[dt]
	if !ok {
		pattern = random(dt)
		r.random[dt] = pattern
	}
	first := min(n, patternLen)
	buf := r.alloc(dt, n)
	require.NoError(r.b, r.Backend.Upload(r.Stream, buf, 0, pattern[:(first*dt.Bits()+7)/8]))
	for have := first; have < n; have *= 2 {
		require.NoError(r.b, r.Backend.Copy(r.Stream, buf, have, buf, 0, min(have, n-have)))
	}
	return buf
}

// patternLen is the numbers that repeat in memory.
const patternLen = 1 << 16

func random(dt backend.DType) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	if dt.Quantized() {
		codes := make([]byte, patternLen*dt.Bits()/8)
		for i := range codes {
			codes[i] = byte(rng.UintN(256)) & 0x77 // no NaN of a float of 8 bits
		}
		return codes
	}
	halves, floats := make([]uint16, patternLen), make([]float32, patternLen)
	for i := range floats {
		floats[i] = 2*rng.Float32() - 1
		if halves[i] = quant.F16(floats[i]); dt == backend.BF16 {
			halves[i] = quant.BF16(floats[i])
		}
	}
	if dt == backend.F32 {
		return backend.BytesOf(floats)
	}
	return backend.BytesOf(halves)
}

// upload is alloc with contents.
func upload[B launch.Buffer, T backend.Number](r *rig[B], dt backend.DType, values []T) B {
	buf := r.alloc(dt, len(values))
	require.NoError(r.b, r.Backend.Upload(r.Stream, buf, 0, backend.BytesOf(values)))
	return buf
}
